"""Servers that need only a sum: the mean of changes, or steps of their own along mean gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from tacit.core.optim import Adam, Optimiser, Sgd
from tacit.core.parts import Meeting, TableRule
from tacit.core.types import Init, Params
from tacit.parts.graph import GraphMean

# The mean of the clients' changes.


def client_weight(
    weights: Literal["uniform", "examples"], cap: int | None, n_positives: int
) -> float:
    """What a client counts for.

    >>> [client_weight("examples", 40, n) for n in (10, 40, 900)]
    [0.25, 1.0, 1.0]
    """
    if weights == "uniform":
        return 1.0
    return float(n_positives) if cap is None else min(n_positives, cap) / cap


@dataclass(frozen=True)
class Mean:
    """global <- global + Σ weight·change / Σ weight, over the clients that reported.

    `weights="uniform"` is the plain mean of PFedRec; `"examples"` weights a client by its number of
    train interactions, and so tells the server that number. With a `cap` that weight is
    min(interactions, cap) / cap: nobody counts for more than one, so that an upload that was
    clipped stays within its bound, and noise of a given size means the same for everybody.

    >>> Mean().step(np.zeros(1), np.array([6.0]), 3.0).tolist()
    [2.0]
    """

    weights: Literal["uniform", "examples"] = "uniform"
    cap: int | None = None

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    def weight(self, n_positives: int) -> float:
        return client_weight(self.weights, self.cap, n_positives)

    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray:
        return value + total / weight


# A server that descends: its own steps along the clients' mean gradient.


@dataclass(frozen=True)
class ServerSteps:
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

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    def optimiser(self, is_table: bool) -> Optimiser:
        return self.items if is_table else self.encoder

    def weight(self, n_positives: int) -> float:
        return client_weight(self.weights, self.cap, n_positives)

    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray:
        return value + total / weight


# A server that reads single item tables, and adds up whatever else its clients share.


@dataclass(frozen=True)
class TablesBeside:
    """`tables` meets the personal item tables, as it does alone. What else is shared (the operators
    that fuse an item from id and content) arrives as a sum and is stepped by `steps`: along the
    mean gradient where devices hold it still, else by the mean change. Clients count alike, as
    they do where tables are read.

    >>> TablesBeside().floats_down(Init((10, 4)))
    80
    >>> TablesBeside().weight(7)
    1.0
    """

    tables: TableRule = GraphMean()
    steps: ServerSteps = ServerSteps()

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "each"

    def shared(self, table: Init) -> dict[str, Init]:
        return self.tables.shared(table)

    def private(self, table: Init) -> dict[str, Init]:
        return self.tables.private(table)

    def floats_down(self, table: Init) -> int:
        """Of the tables alone; what else is shared comes down as it goes up."""
        return self.tables.floats_down(table)

    def meet(self, table_PID: Tensor, shared: Params, generator: np.random.Generator) -> Meeting:
        return self.tables.meet(table_PID, shared, generator)

    def optimiser(self, is_table: bool) -> Optimiser:
        return self.steps.optimiser(is_table)

    def weight(self, n_positives: int) -> float:
        return 1.0

    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray:
        return self.steps.step(value, total, weight)
