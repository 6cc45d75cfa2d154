"""GPFedRec: a personal table that begins each round as the global one and is pulled to a guide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from tacit.core.types import ITEMS, OWN_ITEMS, Init, Params
from tacit.errors import TacitError

GUIDE = "items.guide"  # the table that the server made for this very user


@dataclass(frozen=True)
class Proximal:
    """P_u ← G; the loss has the term strength · mean (P_u − r_u)² over the whole table.

    r_u is the guide that the server made for the user in the last round the user took part in; it
    begins as the first global table. The client ranks with the P_u of its own last training.

    >>> import torch
    >>> tables = {"items.own": torch.ones(2, 2), "items.guide": torch.zeros(2, 2)}
    >>> Proximal(strength=0.5).table_penalty(tables).item()
    0.5
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise TacitError(f"sync.strength is {self.strength}; it must not be negative.")

    @property
    def trains(self) -> tuple[str, ...]:
        return (OWN_ITEMS,)

    @property
    def rows(self) -> Literal["all"]:
        return "all"

    @property
    def restarts(self) -> bool:
        return True

    @property
    def scores_with(self) -> Literal["own"]:
        return "own"

    @property
    def needs(self) -> tuple[str, ...]:
        return (GUIDE,)

    def shared(self, table: Init) -> dict[str, Init]:
        return {ITEMS: table}

    def private(self, table: Init) -> dict[str, Init]:
        return {OWN_ITEMS: replace(table, same=True, like=ITEMS)}

    def sends(self, round_number: int) -> bool:
        return True

    def read(self, p: Params) -> Tensor:
        return p[OWN_ITEMS]

    def table_penalty(self, p: Params) -> Tensor:
        return self.strength * (p[OWN_ITEMS] - p[GUIDE]).square().mean()
