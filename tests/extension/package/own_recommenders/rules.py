"""A synchronisation rule, which registers itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

import tacit
from tacit.core.types import ITEMS, Params
from tacit.parts.sync import Replace


@tacit.register("shrunk_rows")
@dataclass(frozen=True)
class ShrunkRows(Replace):
    """The global table replaces the local one, and a client reads its rows scaled."""

    factor: float = 0.5

    def read(self, p: Params) -> Tensor:
        return self.factor * p[ITEMS]
