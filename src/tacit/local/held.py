"""The item side stands still on a device: FedMR's algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tacit.core.optim import Optimiser
from tacit.core.parts import Local, Refits
from tacit.core.types import Phase
from tacit.local.joint import Joint


@dataclass(frozen=True)
class Held:
    """Trains as `inner` does, but the shared table and the item encoder do not move: their
    gradients are added up over the round and sent (`gradients`), or only those of the last batch
    (`last_gradient`, as released). What is private moves at every step.

    With `restores=False` nobody finds their private model again, which is how released code ranks.

    >>> Held(Joint(epochs=5)).epochs, Held().sends
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
    def fitting(self) -> Held:
        assert isinstance(self.inner, Refits)
        return replace(self, inner=self.inner.fitting)

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return self.inner.phases(epoch)
