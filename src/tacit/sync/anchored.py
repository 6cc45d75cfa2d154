"""IFedRec: the global table replaces the local one, which is then pulled to what content says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tacit.core.types import ITEMS, Init, Params
from tacit.errors import TacitError

# The table that the server makes from the content of all items, the same for everybody. Clients
# read it and never send it. (GPFedRec's guide has this name too, but is one user's and private.)
GUIDE = "items.guide"


@dataclass(frozen=True)
class Anchored:
    """P_u ← G; the loss has the term strength · mean (P_u − R)² over the whole table.

    R begins as zeros; whoever makes it from content writes it between rounds. A step of the items
    multiplies P_u − R by 1 − 2 · strength · rate / (I·D) on rows that no sample reads: below −1 it
    diverges, and nothing here hides that. The client ranks with the global table.

    >>> import torch
    >>> tables = {"items": torch.ones(2, 2), "items.guide": torch.zeros(2, 2)}
    >>> Anchored(strength=0.5).table_penalty(tables).item()
    0.5
    """

    strength: float = 10.0

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise TacitError(f"sync.strength is {self.strength}; it must not be negative.")

    @property
    def trains(self) -> tuple[str, ...]:
        return (ITEMS,)

    @property
    def rows(self) -> Literal["all"]:
        return "all"

    @property
    def restarts(self) -> bool:
        return False

    @property
    def scores_with(self) -> Literal["global"]:
        return "global"

    @property
    def needs(self) -> tuple[str, ...]:
        return (GUIDE,)

    def shared(self, table: Init) -> dict[str, Init]:
        return {ITEMS: table, GUIDE: Init(table.shape)}

    def private(self, table: Init) -> dict[str, Init]:
        return {}

    def sends(self, round_number: int) -> bool:
        return True

    def read(self, p: Params) -> Tensor:
        return p[ITEMS]

    def table_penalty(self, p: Params) -> Tensor:
        return self.strength * (p[ITEMS] - p[GUIDE]).square().mean()
