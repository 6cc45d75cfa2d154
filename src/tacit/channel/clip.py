"""Bound the norm of a client's whole upload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Clip:
    """Scale an upload (all shared leaves together) down to L2 (or L1) norm `bound`.

    >>> import torch
    >>> Clip(bound=1.0).factor(torch.tensor([0.5, 4.0])).tolist()
    [1.0, 0.25]
    """

    bound: float = 1.0
    order: Literal[1, 2] = 2

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"bounded_norm"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def factor(self, norm: Tensor) -> Tensor:
        # a zero upload stays zero: its factor is 1, not 1/0
        return (self.bound / norm.clamp(min=1e-30)).clamp(max=1.0)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        return total

    def says(self) -> str:
        return f"upload clipped to L{self.order} norm {self.bound:g}"
