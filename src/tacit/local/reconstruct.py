"""FedRecon's order: the private part from scratch against a frozen table, then the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tacit.core.optim import Optimiser, Sgd
from tacit.core.types import Phase


@dataclass(frozen=True)
class Reconstruct:
    """Every round a client forgets its model, fits it anew for some epochs with the item rows
    frozen, then moves the item rows with the model frozen (support and query data are the same).

    >>> [Reconstruct().phases(epoch)[0].groups for epoch in range(2)]
    [('model',), ('items',)]
    """

    model: Optimiser = Sgd(rate=0.1)
    items: Optimiser = Sgd(rate=0.1, per_item=80.0)
    reconstruct_epochs: int = 1
    item_epochs: int = 1
    batch: int = 256
    gradient_clip: float | None = None

    @property
    def epochs(self) -> int:
        return self.reconstruct_epochs + self.item_epochs

    @property
    def forgets(self) -> bool:
        return True

    @property
    def fitting(self) -> Reconstruct:
        return replace(self, item_epochs=0)

    @property
    def sends(self) -> Literal["change", "gradients", "last_gradient"]:
        return "change"

    @property
    def restores(self) -> bool:
        return True

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return (Phase(("model",) if epoch < self.reconstruct_epochs else ("items",)),)
