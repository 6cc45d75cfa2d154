"""FedRAP: an item is the sum of a personal row, which stays, and a common row, which is averaged.

Two terms in the loss keep them apart and the common one sparse: −λ_t · mean (D_u − C)² + μ_t · mean
|C|, both over the rows of the batch times the width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from tacit.core.types import ITEMS, OWN_ITEMS, Init, Params
from tacit.errors import TacitError


@dataclass(frozen=True)
class Additive:
    """Row = D_u[i] + C[i]; both train together, only C's change is sent.

    `apart` is λ, `sparse` is μ; `schedule` multiplies both, as a function of t, the rounds already
    played. "tanh" is the paper's curriculum, tanh(t / 10). "fixed" is what the released code really
    does: it computes the curriculum and reads the constants. "cumulative" is the habit of a later
    release: the constants themselves are multiplied by tanh(t / 10) round after round, which is 0
    at once, so that the terms stand in the first round only. "none" leaves both out. `norm="none"`
    leaves out the norm of C alone.

    Both tables begin with the scorer's law for a row, the same for all clients but independent of
    each other, as released: under the unit normal law a row begins with variance 2.

    >>> [round(Additive().factor(round_number), 4) for round_number in (1, 2, 11)]
    [0.0, 0.0997, 0.7616]
    """

    apart: float = 0.1
    sparse: float = 1e-3
    schedule: Literal["tanh", "fixed", "cumulative", "none"] = "tanh"
    norm: Literal["l1", "none"] = "l1"

    def __post_init__(self) -> None:
        for name, value in (("apart", self.apart), ("sparse", self.sparse)):
            if not value >= 0:
                raise TacitError(f"sync.{name} is {value}; it must not be negative.")

    @property
    def trains(self) -> tuple[str, ...]:
        return (OWN_ITEMS, ITEMS)

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
        return {ITEMS: table}

    def private(self, table: Init) -> dict[str, Init]:
        return {OWN_ITEMS: replace(table, same=True)}

    def sends(self, round_number: int) -> bool:
        return True

    def read(self, p: Params) -> Tensor:
        return p[OWN_ITEMS] + p[ITEMS]

    def factor(self, round_number: int) -> float:
        """What λ and μ are multiplied by in a round; rounds count from 1."""
        played = round_number - 1
        if self.schedule == "tanh":
            return math.tanh(played / 10)
        if self.schedule == "cumulative":
            return 1.0 if played == 0 else 0.0
        return 1.0 if self.schedule == "fixed" else 0.0

    def penalty(self, p: Params, weight_N: Tensor, round_number: int) -> Tensor:
        """The two terms of a batch; `weight_N` makes the sum over samples a mean."""
        own_ND, common_ND = p[OWN_ITEMS], p[ITEMS]
        term_N = -self.apart * (own_ND - common_ND).square().mean(-1)
        if self.norm == "l1":
            term_N = term_N + self.sparse * common_ND.abs().mean(-1)
        return self.factor(round_number) * (weight_N * term_N).sum()
