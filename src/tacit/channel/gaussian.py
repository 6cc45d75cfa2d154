"""Gaussian noise on every entry of an upload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Gaussian:
    """Each client adds N(0, sigma²) to every entry. The sum of n such noises is one N(0, n sigma²),
    drawn once. Without an L2 clip before it there is no finite epsilon, whatever sigma; with one
    none is stated yet either: accounting comes with the privacy release.

    >>> total = Gaussian(sigma=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0))
    >>> total.tolist()
    [1.0, 1.0]
    """

    sigma: float = 0.1

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"noise"} if self.sigma else ())  # none of it hides nothing

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
        if self.sigma == 0.0:
            return total
        return total + self.sigma * np.sqrt(n_clients) * generator.standard_normal(total.shape)

    def says(self) -> str:
        if not self.sigma:
            return ""
        return f"Gaussian noise, standard deviation {self.sigma:g} per entry and client"
