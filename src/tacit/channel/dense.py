"""The plain channel: every row of every shared leaf, as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Dense:
    """Send all rows, also untouched ones. By itself it hides nothing: untouched rows are exactly
    zero, and the sign of the others tells positives from negatives.

    >>> Dense().says()
    'dense update: the server can read which items were touched, and which were liked'
    """

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"dense"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    @property
    def order(self) -> int | None:
        return None

    def factor(self, norm: Tensor) -> Tensor:
        return norm.new_ones(norm.shape)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        return total

    def says(self) -> str:
        return "dense update: the server can read which items were touched, and which were liked"
