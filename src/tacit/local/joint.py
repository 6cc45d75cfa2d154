"""One step per batch for everything at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacit.core.optim import Optimiser, Sgd
from tacit.core.types import Phase


@dataclass(frozen=True)
class Joint:
    """Scorer and item rows move together, from one gradient.

    `gradient_clip` bounds the norm of a step's gradient over all leaves that move in it.

    >>> len(Joint().phases(0))
    1
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
        return (Phase(("model", "items")),)
