"""The global table replaces the local one at the start of every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tacit.core.types import ITEMS, Init, Params


@dataclass(frozen=True)
class Replace:
    """P_u <- G, then local training; what changed is sent.

    With `keep` the client ranks with its own tuned copy, as PFedRec does: the global table overlaid
    by the rows it last tuned (rows it never touched are G by definition, so only those are stored).
    Without, it ranks with the global table.

    >>> Replace(keep=True).scores_with, Replace().scores_with
    ('tuned', 'global')
    """

    keep: bool = False

    @property
    def trains(self) -> tuple[str, ...]:
        return (ITEMS,)

    @property
    def rows(self) -> Literal["touched"]:
        return "touched"

    @property
    def restarts(self) -> bool:
        return False

    @property
    def scores_with(self) -> Literal["global", "tuned"]:
        return "tuned" if self.keep else "global"

    def shared(self, table: Init) -> dict[str, Init]:
        return {ITEMS: table}

    def private(self, table: Init) -> dict[str, Init]:
        return {}

    def sends(self, round_number: int) -> bool:
        return True

    def read(self, p: Params) -> Tensor:
        return p[ITEMS]
