"""PFedRec's order: first the scorer, then the item rows, with a new forward pass between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacit.core.optim import Optimiser, Sgd
from tacit.core.types import Phase


@dataclass(frozen=True)
class Alternate:
    """Per batch: a step of the private scorer, then a step of the item rows under the new scorer.

    >>> [phase.groups for phase in Alternate().phases(0)]
    [('model',), ('items',)]
    """

    model: Optimiser = Sgd(rate=0.1)
    items: Optimiser = Sgd(rate=0.1, per_item=80.0)
    epochs: int = 1
    batch: int = 256
    gradient_clip: float | None = None

    @property
    def forgets(self) -> bool:
        return False

    @property
    def sends(self) -> Literal["change", "gradients", "last_gradient"]:
        return "change"

    @property
    def restores(self) -> bool:
        return True

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return (Phase(("model",)), Phase(("items",)))
