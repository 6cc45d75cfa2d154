"""The mean of the clients' changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Mean:
    """global <- global + Σ weight·change / Σ weight, over the clients that reported.

    `weights="uniform"` is the plain mean of PFedRec; `"examples"` weights a client by its number of
    train interactions, and so tells the server that number.

    >>> Mean().step(np.zeros(1), np.array([6.0]), 3.0).tolist()
    [2.0]
    """

    weights: Literal["uniform", "examples"] = "uniform"

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    def weight(self, n_positives: int) -> float:
        return 1.0 if self.weights == "uniform" else float(n_positives)

    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray:
        return value + total / weight
