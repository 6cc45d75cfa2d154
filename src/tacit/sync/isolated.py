"""No synchronisation: a personal table that is never sent and never overwritten."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from tacit.core.types import OWN_ITEMS, Init, Params


@dataclass(frozen=True)
class Isolated:
    """Each client trains its own table for ever; nothing leaves. A control, not a method.

    >>> Isolated().sends(1)
    False
    """

    @property
    def trains(self) -> tuple[str, ...]:
        return (OWN_ITEMS,)

    @property
    def rows(self) -> Literal["touched"]:
        return "touched"

    @property
    def restarts(self) -> bool:
        return False

    @property
    def scores_with(self) -> Literal["own"]:
        return "own"

    def shared(self, table: Init) -> dict[str, Init]:
        return {}

    def private(self, table: Init) -> dict[str, Init]:
        return {OWN_ITEMS: replace(table, same=True)}

    def sends(self, round_number: int) -> bool:
        return False

    def read(self, p: Params) -> Tensor:
        return p[OWN_ITEMS]
