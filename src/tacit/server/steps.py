"""A server that descends: its own steps along the clients' mean gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.core.optim import Adam, Optimiser, Sgd
from tacit.server.mean import client_weight


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
