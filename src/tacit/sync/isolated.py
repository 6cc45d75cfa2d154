"""No federation at all: a dense personal table that is never sent and never overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tacit.core.types import OWN_ITEMS, Params


@dataclass(frozen=True)
class Isolated:
    """Each client trains its own table for ever; nothing leaves. A control, not a method.

    >>> Isolated().sends(1)
    False
    """

    @property
    def trains(self) -> str:
        return OWN_ITEMS

    @property
    def scores_with(self) -> Literal["own"]:
        return "own"

    def sends(self, round_number: int) -> bool:
        return False

    def read(self, p: Params) -> Tensor:
        return p[OWN_ITEMS]
