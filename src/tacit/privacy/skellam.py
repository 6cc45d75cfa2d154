"""Skellam noise: whole numbers that devices add in shares, and what a sum with them promises.

A Skellam number is the difference of two Poisson numbers with the same mean; its variance is the
sum of the two means. Sums of Skellam numbers are Skellam numbers whose variances add up. So every
device adds a small share, the shares of all survivors together are the noise of the sum, and nobody
has to be trusted with all of it.

**Calibration.** The promise must hold with the fewest devices that a round accepts, and against
colluders who know their own shares. So one share has the wanted variance divided by (fewest
survivors - colluders). Where more survive, the sum has more noise than was promised, never less.

**Accounting.** Agarwal, Kairouz and Liu ("The Skellam Mechanism for Differentially Private
Federated Learning", 2021) bound the Rényi divergence of whole order a > 1 between Skellam noise of
variance v and the same noise moved by whole numbers with L1 norm D1 and L2 norm D2:

    a D2^2 / (2 v)  +  min( ((2a - 1) D2^2 + 6 D1) / (4 v^2),  3 D1 / (2 v) ).

The first term is that of Gaussian noise with the same variance; the second fades as v grows. Norms
are in steps, and v in squared steps. Tests compare the bound with divergences that are summed
exactly, and the epsilon with one that is composed numerically from the distributions of single
coordinates. The bound is over the true value: Skellam noise has no closed form as the Gaussian has.

**What is not exact.** numpy draws Poisson numbers with floating point, from a generator that is
seeded by the operating system but is not a cryptographic one. Above a variance of 2^40 its sampler
loses digits: plans refuse such shares, and a larger noise is drawn as a sum of smaller ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tacit.errors import TacitError, shown
from tacit.privacy.accounting import LARGEST, require_delta, require_epsilon, root
from tacit.privacy.fixed_point import FixedPoint, Units

MOST_VARIANCE = 2.0**40
ORDERS = (*range(2, 256), *(round(256 * 2 ** (k / 8)) for k in range(97)))  # to 2^20


def skellam_rdp(order: int, variance: float, l1: float, l2: float) -> float:
    """The bound on the Rényi divergence of one release, at a whole order above 1.

    >>> round(skellam_rdp(2, variance=1e8, l1=1.0, l2=1e4), 6)  # 1.0 with Gaussian noise
    1.0
    """
    gaussian = order * l2**2 / (2 * variance)
    near = ((2 * order - 1) * l2**2 + 6 * l1) / (4 * variance**2)
    return gaussian + min(near, 3 * l1 / (2 * variance))


def rdp_epsilon(divergences: Iterable[tuple[int, float]], delta: float) -> float:
    """The smallest epsilon that Rényi divergences (order, value) give at that delta.

    The conversion is the tight one of Canonne, Kamath and Steinke (2020), the best over orders.
    """
    require_delta(delta)
    best = math.inf
    for order, value in divergences:
        gain = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        best = min(best, value + gain)
    return max(best, 0.0)


def skellam_epsilon(
    variance: float, l1: float, l2: float, delta: float, releases: int = 1
) -> float:
    """Epsilon of so many releases with noise of that variance; all in steps.

    >>> round(skellam_epsilon(variance=16e8, l1=1e5, l2=1e4, delta=1e-5, releases=10), 3)
    3.628
    """
    return composed_epsilon([SkellamReleases(variance, l1, l2, releases)], delta)


class SkellamReleases(NamedTuple):
    """Releases under noise of one variance, of what one person moves by at most these norms; all in
    steps."""

    variance: float
    l1: float
    l2: float
    releases: int = 1

    @classmethod
    def of(cls, code: FixedPoint, noise: float, releases: int = 1) -> SkellamReleases:
        """Of encoded vectors, of which one is there or not; `noise` is a value, not in steps."""
        return cls((noise / code.step) ** 2, code.l1, code.l2, releases)


def composed_epsilon(parts: Iterable[SkellamReleases], delta: float) -> float:
    """Epsilon of releases of several kinds together: divergences of one order add up.

    >>> one = SkellamReleases(variance=16e8, l1=1e5, l2=1e4, releases=4)
    >>> other = one._replace(releases=6)
    >>> round(composed_epsilon([one, other], delta=1e-5), 3)
    3.628
    """
    played = [part for part in parts if part.releases]
    if any(part.variance <= 0 for part in played):
        return math.inf
    curve = (
        (order, sum(part.releases * skellam_rdp(order, *part[:3]) for part in played))
        for order in ORDERS
    )
    epsilon = rdp_epsilon(curve, delta) if played else 0.0
    return epsilon if epsilon <= LARGEST else math.inf


def skellam_variance(
    epsilon: float, delta: float, l1: float, l2: float, releases: int = 1
) -> float:
    """The variance with which so many releases are together (epsilon, delta) private.

    >>> variance = skellam_variance(8.0, 1e-5, l1=1e5, l2=1e4, releases=10)
    >>> round(skellam_epsilon(variance, 1e5, 1e4, 1e-5, releases=10), 9)
    8.0
    """
    require_epsilon(epsilon)
    require_delta(delta)

    def over(log_variance: float) -> float:
        value = skellam_epsilon(math.exp(log_variance), l1, l2, delta, releases)
        return min(value, LARGEST) - epsilon

    low = high = 2 * math.log(l2)
    while over(low) < 0:
        low -= 2.0
    while over(high) > 0:
        high += 2.0
    found = math.exp(root(over, low, high, 1e-13))
    while skellam_epsilon(found, l1, l2, delta, releases) > epsilon:  # the last bit of the search
        found *= 1 + 1e-12
    return found


def skellam_noise(
    epsilon: float, delta: float, code: FixedPoint, reach: float = 1.0, releases: int = 1
) -> float:
    """The standard deviation of the noise on a sum of encoded vectors, as a value, not in steps.

    `reach` is the sensitivity in bounds: 1 where one contribution is replaced by nothing, 2 where
    two histories of one user are compared.

    >>> code = FixedPoint(bound=1.0, step=2**-16, length=1000)
    >>> round(skellam_noise(8.0, 1e-5, code), 4)
    0.6381
    """
    l1, l2 = reach * code.l1, reach * code.l2
    return code.step * math.sqrt(skellam_variance(epsilon, delta, l1, l2, releases))


def share_variance(variance: float, fewest: int, colluders: int) -> float:
    """The variance of one device's share, so that the fewest survivors without the colluders still
    add `variance` together.

    >>> share_variance(60.0, fewest=35, colluders=5)
    2.0
    """
    if fewest - colluders < 1:
        raise TacitError(
            f"With {colluders} colluders among as few as {fewest} survivors, nobody is left whose "
            "noise hides anything; ask for more survivors, or for fewer colluders."
        )
    return variance / (fewest - colluders)


def draw_skellam(variance: float, length: int, generator: np.random.Generator) -> Units:
    """Skellam numbers: one device's share, or in a simulation the noise of a whole sum at once.

    >>> noise = draw_skellam(9.0, 100_000, np.random.default_rng(0))
    >>> noise.dtype, bool(abs(noise.var() - 9.0) < 0.2)
    (dtype('int64'), True)
    """
    if not 0 <= variance < math.inf:
        raise TacitError(f"The variance of noise is {shown(variance)}; it must not be below 0.")
    pieces = max(1, math.ceil(variance / MOST_VARIANCE))
    total_N = np.zeros(length, dtype=np.int64)
    for _ in range(pieces):
        total_N += generator.poisson(variance / pieces / 2, length)
        total_N -= generator.poisson(variance / pieces / 2, length)
    return total_N


def skellam_reach(variance: float, chance: float) -> float:
    """A number that |noise| exceeds with at most that chance, by Chernoff's bound.

    >>> round(skellam_reach(1e6, 1e-9) / 1e3, 2)  # a little over 6.1 for Gaussian noise
    6.54
    """
    if variance == 0:
        return 0.0
    wanted = math.log(2 / chance)

    def spare(reach: float) -> float:
        exponent = reach * math.asinh(reach / variance)
        # sqrt(r^2 + v^2) - v, without losing digits where the variance is large
        return exponent - reach**2 / (math.hypot(reach, variance) + variance) - wanted

    high = math.sqrt(variance) + 1
    while spare(high) < 0:
        high *= 2
    return root(spare, 0.0, high)
