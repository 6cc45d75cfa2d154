"""FedRKG: a personal table that is never overwritten; global knowledge guides it now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tacit.core.optim import Optimiser, Sgd
from tacit.core.parts import Guided
from tacit.core.registry import register
from tacit.core.types import ITEMS, OWN_ITEMS, Initializer, Params
from tacit.errors import TacitError
from tacit.parts.sync import PersonalTable

# Which of personal row, global row and their difference the gate sees.
GATE_INPUTS: dict[str, tuple[bool, bool, bool]] = {
    "own_global_difference": (True, True, True),
    "own_global": (True, True, False),
    "difference": (False, False, True),
    "own": (True, False, False),
    "global": (False, True, False),
}


@register("guidance")
@dataclass(frozen=True)
class AdaptiveGuidance(PersonalTable, Guided):
    """Guidance of personal tables by their mean.

    `beta` is how much of the personal table survives, `every` the rounds between two guidances,
    `epochs` those of the gate's training (0: knowledge guidance). `at="same"` is the paper's time:
    after the local training of the round in which tables were sent; `"next"` that of the released
    code: at the start of the next round, with that round's samples.

    >>> rows = {"items.own": torch.ones(1, 2), "items": torch.zeros(1, 2) + 3,
    ...         "gate.w": torch.zeros(6), "gate.b": torch.zeros(())}
    >>> AdaptiveGuidance(beta=0.5).mix(rows).tolist()
    [[2.0, 2.0]]
    """

    beta: float = 0.99
    every: int = 100
    epochs: int = 5
    gate_optimiser: Optimiser = Sgd(rate=1e-4)
    tolerance: float = 1e-4
    at: Literal["same", "next"] = "same"
    gate_input: Literal["own_global_difference", "own_global", "difference", "own", "global"] = (
        "own_global_difference"
    )

    gate_parameters = ("gate.w", "gate.b")

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise TacitError(f"sync.beta is {self.beta}; it must lie between 0 and 1.")
        if self.every < 1:
            raise TacitError(f"sync.every is {self.every}; it must be at least 1.")
        if self.epochs < 0:
            raise TacitError(f"sync.epochs is {self.epochs}; it must not be negative.")

    def private(self, table: Initializer) -> dict[str, Initializer]:
        width = sum(GATE_INPUTS[self.gate_input]) * table.shape[1]
        return {
            **super().private(table),
            "gate.w": Initializer((width,), "zeros"),
            "gate.b": Initializer((), "zeros"),
        }

    def sends(self, round_number: int) -> bool:
        """Everybody sends its table in every T_int-th round, whatever the participation."""
        return round_number > 0 and round_number % self.every == 0

    def gate_logit(self, p: Params) -> Tensor:
        own_ND, global_ND = p[OWN_ITEMS], p[ITEMS]
        views = (own_ND, global_ND, own_ND - global_ND)
        seen = [
            view for view, used in zip(views, GATE_INPUTS[self.gate_input], strict=True) if used
        ]
        weights = p["gate.w"].split(own_ND.shape[-1])
        logit_N = p["gate.b"]
        for view_ND, weight_D in zip(seen, weights, strict=True):
            logit_N = logit_N + view_ND @ weight_D
        return logit_N

    def gate(self, p: Params) -> Tensor:
        """g_ui of one client, for the rows in `p` (eq. 5)."""
        return torch.sigmoid(self.gate_logit(p))

    def mix(self, p: Params) -> Tensor:
        """The personal rows after guidance (eq. 6)."""
        pull_N = 2 * (1 - self.beta) * self.gate(p)
        return self.beta * p[OWN_ITEMS] + pull_N[:, None] * p[ITEMS]
