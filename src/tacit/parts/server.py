"""Servers that need only a sum: the mean of changes, or steps of their own along mean gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tacit.core.algorithm import Declared
from tacit.core.fit import CompositionError, Use
from tacit.core.optim import Adam, Optimiser, Sgd
from tacit.core.parts import GradientRule, Server, ServerRule, TableRule
from tacit.core.registry import register
from tacit.core.types import written_by
from tacit.errors import TacitError
from tacit.parts.graph import GraphMean

if TYPE_CHECKING:
    from tacit.core.method import Method

# The mean of the clients' changes.


def client_weight(
    weights: Literal["uniform", "examples"], cap: int | None, declared: Declared
) -> float:
    """What a client counts for.

    >>> [client_weight("examples", 40, Declared(examples)) for examples in (10, 40, 900)]
    [0.25, 1.0, 1.0]
    """
    if weights == "uniform":
        return 1.0
    assert declared.examples is not None
    return float(declared.examples) if cap is None else min(declared.examples, cap) / cap


class Weighted(ServerRule):
    """A server that counts clients alike, or by their examples up to a cap."""

    weights: Literal["uniform", "examples"] = "uniform"
    cap: int | None = None

    @property
    def tells_examples(self) -> bool:
        return self.weights == "examples"

    def weight(self, declared: Declared) -> float:
        return client_weight(self.weights, self.cap, declared)

    @property
    def largest_weight(self) -> float | None:
        if written_by(self, "weight") is not Weighted:
            return None  # a subclass may weigh in a way of its own
        return 1.0 if self.weights == "uniform" or self.cap is not None else None

    def check(self, method: Method) -> None:
        if self.cap is None:
            return
        if self.cap < 1:
            raise TacitError(f"server.cap is {self.cap}; it must be at least 1, or left out.")
        if self.weights == "uniform":
            raise CompositionError(
                f"server.cap is {self.cap}, but clients count alike, so there is nothing to bound",
                Use("weight them by their examples", "server.weights", "examples"),
                Use("leave the cap out", "server.cap", None),
            )


@register("mean")
@dataclass(frozen=True)
class Mean(Weighted):
    """global <- global + Σ weight·change / Σ weight, over the clients that reported.

    `weights="uniform"` is the plain mean of PFedRec; `"examples"` weights a client by its number of
    train interactions, and so tells the server that number. With a `cap` that weight is
    min(interactions, cap) / cap: nobody counts for more than one, so that an upload that was
    clipped stays within its bound, and noise of a given size means the same for everybody.

    >>> import numpy as np
    >>> Mean().step(np.zeros(1), np.array([6.0]), 3.0).tolist()
    [2.0]
    """

    weights: Literal["uniform", "examples"] = "uniform"
    cap: int | None = None

    ground = True

    def with_steps(self, items: Optimiser, encoder: Optimiser) -> ServerSteps:
        return ServerSteps(items, encoder, self.weights, self.cap)


# A server that descends: its own steps along the clients' mean gradient.


@register("server_steps")
@dataclass(frozen=True)
class ServerSteps(Weighted, GradientRule):
    """Where clients send gradients, global <- global - step(Σ weight·gradient / Σ weight): descent
    on the item table, Adam on the encoder, whose moments the server keeps (FedMR, algorithm 1).
    Where they send changes, the mean of those. Weights and their `cap` are those of `Mean`.

    >>> ServerSteps().optimiser(is_table=True).per_item
    1.0
    """

    items: Optimiser = Sgd(rate=0.1, per_item=1.0)
    encoder: Optimiser = Adam(rate=0.1)
    weights: Literal["uniform", "examples"] = "uniform"
    cap: int | None = None

    def optimiser(self, is_table: bool) -> Optimiser:
        return self.items if is_table else self.encoder

    def with_steps(self, items: Optimiser, encoder: Optimiser) -> ServerSteps:
        return replace(self, items=items, encoder=encoder)

    def stepping_items_with(self, optimiser: Optimiser) -> ServerSteps:
        return replace(self, items=optimiser)


# A server that reads single item tables, and adds up whatever else its clients share.


@register("tables_beside")
@dataclass(frozen=True)
class TablesBeside(Server):
    """`tables` aggregates the personal item tables, as it does alone. What else is shared (the
    operators that fuse an item from id and content) arrives as a sum and is stepped by `steps`:
    along the mean gradient where devices hold it still, else by the mean change. Clients count
    alike, as they do where tables are read.

    >>> TablesBeside().weight(Declared())
    1.0
    """

    tables: TableRule = GraphMean()
    steps: ServerSteps = ServerSteps()

    @property
    def sums(self) -> ServerSteps:
        return self.steps

    @property
    def gradients(self) -> ServerSteps:
        return self.steps
