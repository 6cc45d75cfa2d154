"""What happens to an upload on its way: sent as it is, clipped, or with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from torch import Tensor

from tacit.core.algorithm import Noise
from tacit.core.parts import Transform
from tacit.core.registry import register
from tacit.errors import TacitError, argument

if TYPE_CHECKING:
    from tacit.core.method import Method

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


# Bound the norm by a quantile of all norms, which is estimated on the way.


@register("quantile_clip")
@dataclass(frozen=True)
class QuantileClip(Transform):
    """Scale an upload down to an estimate of a quantile of all norms. The server holds the estimate
    and devices receive it; `factor` sees norms in units of it.

    Beside its upload a device sends one bit, whether its norm was within: +w/2 or -w/2 in the same
    units, where w makes the bit's part of the squared bound `share`. So the bit is one more entry
    of the upload, with the same noise, and the bound is that of both together.

    >>> link = QuantileClip(share=0.05)
    >>> round(link.bound, 4), round((1 + (link.bit_weight / 2) ** 2) ** 0.5, 4)
    (1.026, 1.026)
    """

    quantile: float = 0.5
    share: float = 0.05

    entrywise = True
    in_units = True

    @property
    def order(self) -> int:
        return 2

    @property
    def bound(self) -> float:  # type: ignore[override]
        return float(1.0 / np.sqrt(1.0 - self.share))

    @property
    def bit_weight(self) -> float:  # type: ignore[override]
        """How far apart the two values of the bit are."""
        return float(2.0 * np.sqrt(self.share / (1.0 - self.share)))

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"bounded_norm"})

    def check(self, method: Method) -> None:
        raise TacitError(
            "QuantileClip needs a server that estimates its bound, which a claim of privacy "
            f"brings; use Clip, or {argument('plugins', 'private:quantile=0.5')}."
        )

    def factor(self, norm: Tensor) -> Tensor:
        return (1.0 / norm.clamp(min=1e-30)).clamp(max=1.0)

    def interpretation(self) -> str:
        return (
            f"upload clipped to an estimate of the {self.quantile:g} quantile of all norms, for "
            f"which a client sends one bit; {100 * self.share:g} % of the squared budget are the "
            "bit's, and bound and noise are in units of the estimate"
        )


# Noise on every entry, of an upload or of a sum.


class AddsNoise(Transform):
    """What all links have in common that are there to add noise; each says its own `noise`."""

    noisy = True

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"noise"} if self.noise and self.noise.scale else ())  # 0 hides nothing

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})


# Gaussian noise on every entry of an upload.


@register("gaussian")
@dataclass(frozen=True)
class Gaussian(AddsNoise):
    """Each client adds N(0, sigma²) to every entry. The sum of n such noises is one N(0, n sigma²),
    drawn once. Without a clip before it there is no finite epsilon, whatever sigma.

    >>> total = Gaussian(sigma=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0))
    >>> total.tolist()
    [1.0, 1.0]
    """

    sigma: float = 0.1

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
class GaussianSum(AddsNoise):
    """N(0, sigma²) once on every entry of the sum, however many clients there are. It stands for a
    secure sum to which devices add shares of that noise; a server that sees single uploads sees
    them without noise.

    >>> GaussianSum(sigma=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0)).tolist()
    [1.0, 1.0]
    """

    sigma: float = 1.0

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
class Laplace(AddsNoise):
    """Each client adds Laplace(0, scale) to every entry. The sum of n such noises is the difference
    of two Gamma(n, scale) variables, drawn once. Without an L1 clip before it there is no finite
    epsilon, whatever the scale.

    >>> Laplace(scale=0.0).add_noise(np.ones(2), 5, np.random.default_rng(0)).tolist()
    [1.0, 1.0]
    """

    scale: float = 0.1

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
