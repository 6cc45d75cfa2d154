"""What happens to an upload on its way: sent as it is, clipped, or with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from tacit.core.algorithm import Noise
from tacit.core.parts import Transform
from tacit.core.registry import register

# The plain channel: every row of every shared parameter, as it is.


@register("dense")
@dataclass(frozen=True)
class Dense(Transform):
    """Send all rows, also untouched ones. By itself it hides nothing: untouched rows are exactly
    zero, and the sign of the others tells positives from negatives.

    >>> Dense().interpretation()
    'dense update: the server can read which items were touched, and which were liked'
    """

    keeps_bounds = True

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"dense"})

    def interpretation(self) -> str:
        return "dense update: the server can read which items were touched, and which were liked"


# Bound the norm of a client's whole upload.


@register("clip")
@dataclass(frozen=True)
class Clip(Transform):
    """Scale an upload (all shared parameters together) down to L2 (or L1) norm `bound`.

    >>> import torch
    >>> Clip(bound=1.0).factor(torch.tensor([0.5, 4.0])).tolist()
    [1.0, 0.25]
    """

    bound: float = 1.0
    order: Literal[1, 2] = 2

    entrywise = True

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"bounded_norm"})

    def factor(self, norm: Tensor) -> Tensor:
        # a zero upload stays zero: its factor is 1, not 1/0
        return (self.bound / norm.clamp(min=1e-30)).clamp(max=1.0)

    def interpretation(self) -> str:
        return f"upload clipped to L{self.order} norm {self.bound:g}"


# Gaussian noise on every entry of an upload.


@register("gaussian")
@dataclass(frozen=True)
class Gaussian(Transform):
    """Each client adds N(0, sigma²) to every entry. The sum of n such noises is one N(0, n sigma²),
    drawn once. Without a clip before it there is no finite epsilon, whatever sigma.

    >>> total = Gaussian(sigma=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0))
    >>> total.tolist()
    [1.0, 1.0]
    """

    sigma: float = 0.1

    noisy = True

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"noise"} if self.sigma else ())  # none of it hides nothing

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    @property
    def noise(self) -> Noise:
        return Noise("gaussian", "upload", self.sigma)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        if self.sigma == 0.0:
            return total
        return total + self.sigma * np.sqrt(n_clients) * generator.standard_normal(total.shape)

    def interpretation(self) -> str:
        if not self.sigma:
            return ""
        return f"Gaussian noise, standard deviation {self.sigma:g} per entry and client"


# Gaussian noise on the sum of an exchange, for servers that see nothing but sums.


@register("gaussian_sum")
@dataclass(frozen=True)
class GaussianSum(Transform):
    """N(0, sigma²) once on every entry of the sum, however many clients there are. It stands for a
    secure sum to which devices add shares of that noise; a server that sees single uploads sees
    them without noise.

    >>> GaussianSum(sigma=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0)).tolist()
    [1.0, 1.0]
    """

    sigma: float = 1.0

    noisy = True

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"noise"} if self.sigma else ())  # none of it hides nothing

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    @property
    def noise(self) -> Noise:
        return Noise("gaussian", "sum", self.sigma)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        if self.sigma == 0.0:
            return total
        return total + self.sigma * generator.standard_normal(total.shape)

    def interpretation(self) -> str:
        if not self.sigma:
            return ""
        return (
            f"Gaussian noise, standard deviation {self.sigma:g} per entry of the sum: under secure "
            "aggregation the server reads noisy sums alone, without it every upload"
        )


# Laplace noise on every entry of an upload, as in PFedRec's local-privacy variant.


@register("laplace")
@dataclass(frozen=True)
class Laplace(Transform):
    """Each client adds Laplace(0, scale) to every entry. The sum of n such noises is the difference
    of two Gamma(n, scale) variables, drawn once. Without an L1 clip before it there is no finite
    epsilon, whatever the scale.

    >>> Laplace(scale=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0)).tolist()
    [1.0, 1.0]
    """

    scale: float = 0.1

    noisy = True

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"noise"} if self.scale else ())  # none of it hides nothing

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    @property
    def noise(self) -> Noise:
        return Noise("laplace", "upload", self.scale)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        if self.scale == 0.0:
            return total
        plus = generator.gamma(n_clients, self.scale, total.shape)
        return total + plus - generator.gamma(n_clients, self.scale, total.shape)

    def interpretation(self) -> str:
        if not self.scale:
            return ""
        return f"Laplace noise, scale {self.scale:g} per entry and client"
