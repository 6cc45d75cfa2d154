"""Laplace noise on every entry of an upload, as in PFedRec's local-privacy variant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Laplace:
    """Each client adds Laplace(0, scale) to every entry. The sum of n such noises is the difference
    of two Gamma(n, scale) variables, drawn once. Without an L1 clip before it there is no finite
    epsilon, whatever the scale.

    >>> Laplace(scale=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0)).tolist()
    [1.0, 1.0]
    """

    scale: float = 0.1

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"noise"} if self.scale else ())  # none of it hides nothing

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    @property
    def order(self) -> int | None:
        return None

    def factor(self, norm: Tensor) -> Tensor:
        return norm.new_ones(norm.shape)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        if self.scale == 0.0:
            return total
        plus = generator.gamma(n_clients, self.scale, total.shape)
        return total + plus - generator.gamma(n_clients, self.scale, total.shape)

    def says(self) -> str:
        if not self.scale:
            return ""
        return f"Laplace noise, scale {self.scale:g} per entry and client"
