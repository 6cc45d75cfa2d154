"""The mean of the clients' changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


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
