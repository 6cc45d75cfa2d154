"""How a client trains: phases of each batch, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tacit.core.optim import Optimiser, Sgd
from tacit.core.parts import Local
from tacit.core.registry import register
from tacit.core.types import Phase

# One step per batch for everything at once.


@register("joint")
@dataclass(frozen=True)
class Joint(Local):
    """Scorer and item rows move together, from one gradient.

    `gradient_clip` bounds the norm of a step's gradient over all parameters that move in it.

    >>> len(Joint().phases(0))
    1
    """

    model: Optimiser = Sgd(rate=0.1)
    items: Optimiser = Sgd(rate=0.1, per_item=80.0)
    epochs: int = 1
    batch: int = 256
    gradient_clip: float | None = None

    ground = True


# PFedRec's order: first the scorer, then the item rows, with a new forward pass between.


@register("alternate")
@dataclass(frozen=True)
class Alternate(Local):
    """Per batch: a step of the private scorer, then a step of the item rows under the new scorer.

    >>> [phase.groups for phase in Alternate().phases(0)]
    [('model',), ('items',)]
    """

    model: Optimiser = Sgd(rate=0.1)
    items: Optimiser = Sgd(rate=0.1, per_item=80.0)
    epochs: int = 1
    batch: int = 256
    gradient_clip: float | None = None

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return (Phase(("model",)), Phase(("items",)))


# FedRecon's order: the private part from scratch against a frozen table, then the table.


@register("reconstruct")
@dataclass(frozen=True)
class Reconstruct(Local):
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

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return (Phase(("model",) if epoch < self.reconstruct_epochs else ("items",)),)


# The item side stands still on a device: FedMR's algorithm 1.


@register("held")
@dataclass(frozen=True)
class GradientsOnly(Local):
    """Trains as `inner` does, but the shared table and the item encoder do not move: their
    gradients are added up over the round and sent (`gradients`), or only those of the last batch
    (`last_gradient`, as released). What is private moves at every step.

    With `restores=False` nobody finds their private model again, which is how released code ranks.

    >>> GradientsOnly(Joint(epochs=5)).epochs, GradientsOnly().sends
    (5, 'gradients')
    """

    inner: Local = Joint()
    sends: Literal["change", "gradients", "last_gradient"] = "gradients"
    restores: bool = True

    @property
    def model(self) -> Optimiser:
        return self.inner.model

    @property
    def items(self) -> Optimiser:
        return self.inner.items

    @property
    def epochs(self) -> int:
        return self.inner.epochs

    @property
    def batch(self) -> int:
        return self.inner.batch

    @property
    def gradient_clip(self) -> float | None:
        return self.inner.gradient_clip

    @property
    def forgets(self) -> bool:
        return self.inner.forgets

    @property
    def fitting(self) -> GradientsOnly | None:
        fitting = self.inner.fitting
        return None if fitting is None else replace(self, inner=fitting)

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return self.inner.phases(epoch)
