"""compose(method, task): check that the parts fit, and give engines the one thing they run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from tacit.core.method import Method
from tacit.core.optim import Optimiser
from tacit.core.types import ITEMS, OWN_ITEMS, Batch, Init, Params, Task
from tacit.errors import TacitError


@dataclass(frozen=True)
class Algorithm:
    """A method on a catalogue of known size: all that an engine knows.

    `loss` and `score` are for ONE client; the row leaf arrives as the rows that are asked about.
    """

    method: Method
    task: Task

    @cached_property
    def shared(self) -> dict[str, Init]:
        """The leaves that the server holds and that may leave a device as a change."""
        leaves = {**self.method.items.shared(), **self.method.backbone.shared()}
        if self.row_leaf == ITEMS:
            leaves[ITEMS] = self._table()
        return leaves

    @cached_property
    def private(self) -> dict[str, Init]:
        """The leaves that never leave a device."""
        leaves = {**self.method.items.private(), **self.method.backbone.private()}
        if self.row_leaf == OWN_ITEMS:
            leaves[OWN_ITEMS] = replace(self._table(), same=True)
        return leaves

    def _table(self) -> Init:
        row = self.method.backbone.item_init()
        return replace(row, shape=(self.task.n_items, *row.shape))

    @property
    def row_leaf(self) -> str:
        return self.method.sync.trains

    @cached_property
    def model_leaves(self) -> tuple[str, ...]:
        """Every leaf but the item rows, in a fixed order."""
        return tuple(sorted((self.shared.keys() | self.private.keys()) - {self.row_leaf}))

    def leaves(self, group: Literal["model", "items"]) -> tuple[str, ...]:
        return (self.row_leaf,) if group == "items" else self.model_leaves

    def optimiser(self, leaf: str) -> Optimiser:
        local = self.method.local
        return local.items if leaf == self.row_leaf else local.model

    def score(self, p: Params) -> Tensor:
        """Logits of one client for the rows in `p`'s row leaf."""
        method = self.method
        return method.backbone.score(p, method.items.encode(p, method.sync.read(p)))

    def loss(self, p: Params, batch: Batch) -> Tensor:
        """Loss of one client on one batch; the row leaf holds one row per sample."""
        return self.method.objective.loss(self.score(p), batch.label_N, batch.weight_N)

    @property
    def floats_exchanged(self) -> int:
        """How many numbers cross in each direction when a client takes part in a sending round."""
        return sum(init.count for init in self.shared.values()) if self.method.sync.sends(1) else 0

    @property
    def floats_on_client(self) -> int:
        """How many numbers a client holds: its private leaves and its copy of the shared ones."""
        return sum(init.count for init in (*self.shared.values(), *self.private.values()))


def compose(method: Method, task: Task) -> Algorithm:
    """Check the parts against each other, and refuse with a sentence what cannot work.

    >>> from tacit.methods import fedmf
    >>> compose(fedmf(dim=4), Task(n_users=2, n_items=3)).floats_exchanged
    12
    """
    algorithm = Algorithm(method, task)
    _check_numbers(method)
    _check_leaves(algorithm)
    _check_channel(method)
    _check_optimisers(algorithm)
    return algorithm


def _check_numbers(method: Method) -> None:
    local = method.local
    for name, value, low in (
        ("backbone.dim", method.backbone.dim, 1),
        ("local.epochs", local.epochs, 1),
        ("local.batch", local.batch, 1),
        ("sampling.negatives", method.sampling.negatives, 1),
    ):
        if value < low:
            raise TacitError(f"{name} is {value}; it must be at least {low}.")
    if local.gradient_clip is not None and not local.gradient_clip > 0:
        raise TacitError(
            f"local.gradient_clip is {local.gradient_clip}; it must be positive, or left out."
        )


def _check_leaves(algorithm: Algorithm) -> None:
    both = algorithm.shared.keys() & algorithm.private.keys()
    if both:
        raise TacitError(
            f"Leaf {min(both)!r} is made both as shared and as private; a leaf is one or the "
            "other: rename it in one of the two parts."
        )
    if algorithm.shared and not algorithm.method.sync.sends(1):
        raise TacitError(
            f"{type(algorithm.method.sync).__name__} sends nothing, so what clients learn of the "
            f"shared leaf {min(algorithm.shared)!r} would be lost after every round; use a "
            "backbone without shared leaves, or Replace()."
        )


def _check_channel(method: Method) -> None:
    given: set[str] = set()
    for link in method.channel:
        name = type(link).__name__
        if link.order is not None and "noise" in given:
            raise TacitError(
                f"{name} stands after noise in the channel, so it would cut the noise as well; put "
                f"{name} before the noise."
            )
        missing = link.needs - given
        if "bounded_norm" in missing:
            raise TacitError(
                f"{name} needs a bounded norm and nothing before it gives one; put Clip(bound) "
                "first."
            )
        if missing:
            raise TacitError(
                f"{name} needs a dense update before it; begin the channel with Dense()."
            )
        given |= link.gives
    if "noise" in given and not method.sync.sends(1):
        raise TacitError(
            f"{type(method.sync).__name__} sends nothing, so noise in the channel protects "
            "nothing; drop the noise, or use Replace()."
        )
    if "noise" in given and method.server.weight(1) != method.server.weight(2):
        raise TacitError(
            "Noise in the channel is drawn for clients that count alike, but the server weights "
            "them by their examples; use Mean(weights='uniform')."
        )


def _check_optimisers(algorithm: Algorithm) -> None:
    local = algorithm.method.local
    if local.items.lifetime == "persistent":
        raise TacitError(
            "local.items keeps its optimiser state for ever, but a client's item rows change from "
            "round to round; use lifetime='round' for local.items."
        )
    for name, optimiser in (("model", local.model), ("items", local.items)):
        for round_number in (1, 2):  # the second one shows a decay that makes no sense
            rate = optimiser.rate_at(round_number, algorithm.task.n_items)
            if not 0 <= rate < float("inf"):
                raise TacitError(
                    f"local.{name} has a rate of {rate} in round {round_number}; it must be finite "
                    "and not negative."
                )
