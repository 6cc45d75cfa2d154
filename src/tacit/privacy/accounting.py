"""From noise to epsilon and back, in closed form.

A Gaussian mechanism is described by one number, mu = sensitivity / noise. It is (epsilon, delta)
private exactly if

    delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),

and T releases of it, also adaptive ones, are together one Gaussian mechanism with
mu_T = sqrt(T) mu (Balle and Wang, 2018; Dong, Roth and Su, 2022). So composition is exact, and no
numerical accountant is needed.

A Laplace mechanism of scale b is (sensitivity / b, 0) private, with the sensitivity in the sum of
absolute values; epsilons of releases add up.

There is no amplification by sampling: the server knows who took part, and participants are drawn
without replacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.errors import TacitError, shown

LARGEST = 1e9  # an epsilon above this is no promise, and is told as infinite


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta of a Gaussian mechanism with that mu at that epsilon.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0.0:
        return 0.0
    from scipy.special import log_ndtr  # a device that only ranks needs no scipy

    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon of a Gaussian mechanism with that mu at that delta; infinite where there
    is no finite one worth the name.

    >>> round(gaussian_epsilon(50**0.5 / 2.0, 1e-5), 4)  # fifty releases of noise twice the bound
    20.6755
    >>> gaussian_epsilon(0.0, 1e-5)
    0.0
    """
    require_delta(delta)
    if not 0 <= mu < math.inf:
        return math.inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2.0
        if high > LARGEST:
            return math.inf
    return root(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, high, 1e-12)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta) private.

    >>> round(gaussian_epsilon(gaussian_mu(8.0, 1e-5), 1e-5), 9)
    8.0
    """
    require_epsilon(epsilon)
    require_delta(delta)
    high = 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2.0
    return root(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-12, high, 1e-14)


def gaussian_noise(epsilon: float, delta: float, sensitivity: float, releases: int) -> float:
    """The standard deviation with which so many releases are together (epsilon, delta) private.

    >>> noise = gaussian_noise(8.0, 1e-5, sensitivity=1.0, releases=100)
    >>> round(gaussian_epsilon(100**0.5 / noise, 1e-5), 9)
    8.0
    """
    return sensitivity * math.sqrt(releases) / gaussian_mu(epsilon, delta)


def gaussian_releases(epsilon: float, delta: float, sensitivity: float, noise: float) -> int:
    """How many releases with that noise stay within the budget.

    >>> gaussian_releases(20.6756, 1e-5, sensitivity=1.0, noise=2.0)
    50
    """
    return _whole((gaussian_mu(epsilon, delta) * noise / sensitivity) ** 2)


def gaussian_power(mu: float, false_alarms: float) -> float:
    """How often the best test for one person is right about somebody who took part, if it may be
    wrong about the given share of those who did not. No attack on all releases together does
    better (Dong, Roth and Su, 2022).

    >>> round(gaussian_power(1.0, 0.05), 4), round(gaussian_power(0.0, 0.05), 4)
    (0.2595, 0.05)
    """
    from scipy.special import ndtr, ndtri

    return float(ndtr(ndtri(false_alarms) + mu))


def pure_power(epsilon: float, false_alarms: float) -> float:
    """The same for a mechanism of which nothing but a pure epsilon is known.

    >>> round(pure_power(1.0, 0.05), 4), pure_power(0.0, 0.05)
    (0.1359, 0.05)
    """
    often = false_alarms * math.exp(min(epsilon, 700.0))
    return min(often, 1.0 - (1.0 - false_alarms) * math.exp(-epsilon))


def laplace_epsilon(sensitivity: float, scale: float, releases: int = 1) -> float:
    """Epsilon of releases with Laplace noise; delta is 0.

    >>> laplace_epsilon(2.0, 4.0, releases=10)
    5.0
    """
    return math.inf if scale == 0.0 else releases * sensitivity / scale


def laplace_noise(epsilon: float, sensitivity: float, releases: int) -> float:
    """The scale with which so many releases are together epsilon private.

    >>> laplace_noise(5.0, sensitivity=2.0, releases=10)
    4.0
    """
    return releases * sensitivity / epsilon


def laplace_releases(epsilon: float, sensitivity: float, scale: float) -> int:
    """How many releases with that scale stay within the budget.

    >>> laplace_releases(5.0, sensitivity=2.0, scale=4.0)
    10
    """
    return _whole(epsilon * scale / sensitivity)


def root(function: Callable[[float], float], low: float, high: float, xtol: float = 2e-12) -> float:
    """Where a function that changes its sign between two places is 0, to `xtol`.

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 9)
    1.414213562
    """
    from scipy.optimize import brentq  # slow to import, and most runs promise nothing

    return float(brentq(function, low, high, xtol=xtol))


def _whole(releases: float) -> int:
    """The whole number below; a number that is whole up to rounding is that number."""
    return math.floor(releases * (1.0 + 1e-9))


def require_epsilon(epsilon: float) -> None:
    """Refuse what is no budget."""
    if not 0 < epsilon <= LARGEST:
        raise TacitError(
            f"epsilon is {shown(epsilon)}; it must be above 0 and finite (8 is loose, 1 is tight)."
        )


def require_delta(delta: float, people: int | None = None) -> None:
    """Refuse what is no small probability; of so many people, also one of 1 / people or above. To
    publish the whole history of somebody drawn by lot would keep such a promise."""
    if not 0 < delta < 1:
        raise TacitError(
            f"delta is {shown(delta)}; it must lie between 0 and 1, well below 1 / users (1e-5)."
        )
    if people is not None and delta * people >= 1:
        raise TacitError(
            f"delta is {shown(delta)}, and there are {people:,} people: from 1 / people on, a "
            "promise allows that somebody's whole history is told; ask for "
            f"delta={0.1 / people:.0e} or less."
        )
