"""Skellam noise: its distribution, its shares, and a bound that exact sums confirm."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.fft import next_fast_len
from scipy.special import chdtrc, ive, logsumexp

from tacit.errors import TacitError
from tacit.privacy.accounting import gaussian_epsilon
from tacit.privacy.fixed_point import FixedPoint
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.skellam import (
    MOST_VARIANCE,
    draw_skellam,
    rdp_epsilon,
    share_variance,
    skellam_epsilon,
    skellam_noise,
    skellam_rdp,
    skellam_reach,
    skellam_variance,
)


@cache
def log_chances(reach: int, variance: float) -> np.ndarray:
    """The logarithms of the chances of 0, 1, ..., reach; also where they are tiny.

    A chance is exp(-v) I_x(v), and ratios of Bessel functions follow from the last one backwards.
    """
    ratio = np.zeros(reach + 2)
    for x in range(reach, 0, -1):
        ratio[x] = 1.0 / (2 * x / variance + ratio[x + 1])
    steps = np.concatenate([[0.0], np.cumsum(np.log(ratio[1 : reach + 1]))])
    return math.log(ive(0, variance)) + steps


def exact_divergence(order: float, variance: float, moved: int) -> float:
    """The Rényi divergence between the noise and the noise moved, summed over all that counts."""
    peak = variance * math.sinh(order * moved / variance)
    reach = int(peak + 15 * math.sqrt(variance + peak) + 60 + 2 * moved)
    chance, x = log_chances(reach + moved, variance), np.arange(-reach, reach + 1)
    near, far = chance[np.abs(x)], chance[np.abs(x - moved)]
    return float(logsumexp(order * far + (1 - order) * near) / (order - 1))


GRID = [
    (order, variance, moved)
    for order in (2, 3, 5, 8, 16, 32)
    for variance in (0.5, 1.0, 4.0, 16.0, 100.0, 1000.0)
    for moved in (1, 2, 5, 13)
    if variance * math.sinh(min(order * moved / variance, 50.0)) < 20_000
]


def test_the_chances_are_those_of_the_distribution() -> None:
    chance = np.exp(log_chances(80, 20.0))
    assert chance == pytest.approx(ive(np.arange(81), 20.0), rel=1e-9)
    assert chance[0] + 2 * chance[1:].sum() == pytest.approx(1.0, abs=1e-12)


def test_the_bound_is_above_divergences_that_are_summed_exactly() -> None:
    assert len(GRID) > 80
    for order, variance, moved in GRID:
        exact = exact_divergence(order, variance, moved)
        assert exact <= skellam_rdp(order, variance, moved, moved), (order, variance, moved)
    # at orders near 1 the Gaussian term alone would not do
    assert exact_divergence(1.05, 1.0, 1) > 1.05 / 2


def test_the_bound_becomes_the_gaussian_one() -> None:
    for order in (2, 8, 64):
        excess = [
            skellam_rdp(order, scale**2, 4 * scale, 2 * scale) / (2 * order) - 1
            for scale in (10.0, 100.0, 1000.0)
        ]
        assert 0 < excess[2] < excess[1] < excess[0]
        assert excess[2] < 1e-4


# Epsilon, composed from the privacy losses of single coordinates.


def losses(variance: float, moved: int, grid: float, *, up: bool) -> tuple[np.ndarray, int]:
    """The distribution of one coordinate's privacy loss on a grid, rounded up or down, and the
    place of its first entry."""
    reach = int(12 * math.sqrt(variance) + 60 + moved)
    chance, x = log_chances(reach + moved, variance), np.arange(-reach, reach + 1)
    loss = (chance[np.abs(x)] - chance[np.abs(x - moved)]) / grid
    place = (np.ceil(loss) if up else np.floor(loss)).astype(int)
    return np.bincount(place - place.min(), np.exp(chance[np.abs(x)])), int(place.min())


def composed_epsilon(
    variance: float, shift: tuple[int, ...], delta: float, *, up: bool, grid: float = 1e-3
) -> float:
    """The smallest epsilon of noise on every coordinate, against moving the sum by `shift`."""
    whole, first = np.ones(1), 0
    for moved in shift:
        if moved:
            one, place = losses(variance, moved, grid, up=up)
            size = len(whole) + len(one) - 1
            fast = next_fast_len(size)
            whole = np.fft.irfft(np.fft.rfft(whole, fast) * np.fft.rfft(one, fast), fast)[:size]
            first += place
    loss = grid * (first + np.arange(len(whole)))

    def spent(epsilon: float) -> float:
        over = loss > epsilon
        return float((whole[over] * -np.expm1(epsilon - loss[over])).sum())

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


SHIFTS = [(4,), (2, 2, 2, 2), (1,) * 16, (2, 0, 3, 0, 1, 1, 1)]  # all of norm 4


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("variance", [8.0, 40.0, 200.0])
def test_epsilon_is_above_the_composed_one_and_not_far(
    shift: tuple[int, ...], variance: float
) -> None:
    claimed = skellam_epsilon(variance, sum(shift), 4.0, 1e-5)
    low = composed_epsilon(variance, shift, 1e-5, up=False)
    high = composed_epsilon(variance, shift, 1e-5, up=True)
    assert low <= high <= low + 0.02
    moves = [one for one in shift if one]
    curve = [(a, sum(exact_divergence(a, variance, one) for one in moves)) for a in range(2, 20)]
    assert high <= rdp_epsilon(curve, 1e-5) <= claimed
    # what the bound adds to the same conversion of a Gaussian fades with the variance
    gaussian = rdp_epsilon([(a, a * 8.0 / variance) for a in range(2, 200)], 1e-5)
    assert gaussian <= claimed <= gaussian * (1 + 1 / variance)
    # the control: half the noise breaks the claim
    assert composed_epsilon(variance / 4, shift, 1e-5, up=False) > claimed


def test_noise_on_single_steps_is_not_the_same_in_all_directions() -> None:
    found = [composed_epsilon(8.0, shift, 1e-5, up=True) for shift in SHIFTS[:3]]
    assert max(found) - min(found) > 0.5


def test_the_composed_epsilon_becomes_the_gaussian_one() -> None:
    away = []
    for scale in (1, 4, 16):
        shift, variance = (2 * scale, scale, scale), 6.0 * scale**2
        found = composed_epsilon(variance, shift, 1e-5, up=True)
        away.append(abs(found - gaussian_epsilon(1.0, 1e-5)))
    assert away[2] < away[1] < away[0]
    assert away[2] < 0.01


# Calibration.


@pytest.mark.parametrize("releases", [1, 50])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_variance_is_the_smallest_that_keeps_the_budget(epsilon: float, releases: int) -> None:
    variance = skellam_variance(epsilon, 1e-5, l1=300.0, l2=20.0, releases=releases)
    kept = skellam_epsilon(variance, 300.0, 20.0, 1e-5, releases)
    assert epsilon * (1 - 1e-6) < kept <= epsilon
    assert skellam_epsilon(variance * 0.999, 300.0, 20.0, 1e-5, releases) > epsilon


def test_a_guarantee_states_what_was_calibrated() -> None:
    code = FixedPoint(bound=1.5, step=2.0**-14, length=5000)
    for view, reach in (("secure_sum", 1.0), ("local", 2.0)):
        noise = skellam_noise(4.0, 1e-6, code, reach, releases=20)
        stated = Guarantee.skellam(view, code, noise, releases=20, delta=1e-6)
        assert stated.epsilon == pytest.approx(4.0, rel=1e-6)
        assert stated.mechanism == "skellam"
        assert stated.sensitivity == reach * 1.5
        assert stated.epsilon_per_release < stated.epsilon
        exact = Guarantee.gaussian(view, 1.5, noise, releases=20, delta=1e-6)
        assert exact.epsilon < stated.epsilon < 1.1 * exact.epsilon


def test_the_conversion_is_the_tight_one() -> None:
    """At the best order it says the same as its other form, and what other accountants say."""
    delta = 1e-5
    for order, value in ((2, 0.3), (7, 1.0), (40, 2.0)):
        epsilon = rdp_epsilon([(order, value)], delta)
        spent = (order - 1) * (value - epsilon) + order * math.log1p(-1 / order)
        assert math.exp(spent) / (order - 1) == pytest.approx(delta)
    fifty = [(order, 50 * order / 8) for order in np.arange(1.01, 10, 0.01)]  # noise 2, real orders
    assert rdp_epsilon(fifty, delta) == pytest.approx(22.02, abs=0.005)
    assert rdp_epsilon([(2, 0.0)], 0.9) == 0.0


def test_no_noise_is_no_guarantee() -> None:
    assert skellam_epsilon(0.0, 1.0, 1.0, 1e-5) == math.inf
    with pytest.raises(ValueError, match="finite epsilon"):
        Guarantee.skellam("secure_sum", FixedPoint(1.0, 0.5, 2), 0.0, 1, 1e-5)
    with pytest.raises(TacitError, match="delta is 0"):
        rdp_epsilon([(2, 1.0)], delta=0.0)


# Draws.


def chi_square(noise: np.ndarray, variance: float) -> float:
    """How likely a fit this bad is, where noise has its distribution."""
    reach = int(3 * math.sqrt(variance))
    half = np.exp(log_chances(reach, variance))
    inside = np.concatenate([half[:0:-1], half])
    outside = 1 - inside.sum()
    expected = len(noise) * np.concatenate([[outside / 2], inside, [outside / 2]])
    clipped = np.clip(noise, -reach - 1, reach + 1) + reach + 1
    found = np.bincount(clipped, minlength=len(expected))
    statistic = ((found - expected) ** 2 / expected).sum()
    return float(chdtrc(len(expected) - 1, statistic))


def test_sums_of_shares_have_the_distribution_of_one_draw() -> None:
    generator = np.random.default_rng(5)
    shares, one_share = 12, share_variance(24.0, fewest=10, colluders=2)
    assert one_share == 3.0
    summed = sum(draw_skellam(one_share, 100_000, generator) for _ in range(shares))
    at_once = draw_skellam(shares * one_share, 100_000, generator)
    for noise in (summed, at_once):
        assert noise.mean() == pytest.approx(0.0, abs=0.08)
        assert noise.var() == pytest.approx(36.0, rel=0.02)
        assert chi_square(noise, 36.0) > 1e-3
        assert chi_square(noise, 38.0) < 1e-6  # the control
    normal = np.rint(np.random.default_rng(5).normal(0, 6, 100_000)).astype(int)
    assert chi_square(draw_skellam(1.0, 100_000, generator), 1.0) > 1e-3
    assert chi_square(np.rint(normal / 6).astype(int), 1.0) < 1e-6  # rounded Gaussians are others


def test_the_fewest_survivors_without_the_colluders_add_what_was_wanted() -> None:
    for fewest, colluders in ((2, 0), (35, 2), (350, 25)):
        one = share_variance(7.0, fewest, colluders)
        assert (fewest - colluders) * one == pytest.approx(7.0)
    with pytest.raises(TacitError, match="nobody is left whose noise"):
        share_variance(7.0, fewest=3, colluders=3)


def test_large_noise_is_drawn_in_pieces() -> None:
    noise = draw_skellam(3.5 * MOST_VARIANCE, 20_000, np.random.default_rng(0))
    assert noise.var() == pytest.approx(3.5 * MOST_VARIANCE, rel=0.05)
    with pytest.raises(TacitError, match=r"variance of noise is -1\.0"):
        draw_skellam(-1.0, 3, np.random.default_rng(0))


def test_noise_stays_within_its_reach() -> None:
    for variance in (0.2, 3.0, 400.0):
        chance = np.exp(log_chances(400, variance))
        for wanted in (1e-2, 1e-6):
            reach = skellam_reach(variance, wanted)
            assert 2 * chance[math.ceil(reach) :].sum() <= wanted
            assert 2 * chance[math.floor(reach / 2) :].sum() > wanted  # and the bound is not idle
    assert skellam_reach(0.0, 1e-9) == 0.0
