"""Bounds on epsilon from below: exact rates, never above the truth, and above half of the noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from tacit.errors import TacitError
from tacit.privacy.accounting import gaussian_epsilon, gaussian_mu
from tacit.privacy.lower_bound import epsilon_bound, lower_rate, upper_rate

DELTA = 1e-5


def test_rates_are_those_of_clopper_and_pearson() -> None:
    for hits, trials in ((0, 20), (3, 20), (20, 20), (7, 1000)):
        exact = binomtest(hits, trials).proportion_ci(confidence_level=0.98, method="exact")
        assert float(lower_rate(np.array(hits), trials, 0.01)) == pytest.approx(exact.low)
        assert float(upper_rate(np.array(hits), trials, 0.01)) == pytest.approx(exact.high)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 20.6755])
def test_a_true_claim_is_never_refuted_and_half_the_noise_always_is(epsilon: float) -> None:
    mu = gaussian_mu(epsilon, DELTA)
    for seed in range(20):
        generator = np.random.default_rng(seed)
        noise_N, other_N = generator.normal(size=(2, 20_000))
        for reads in ("counts", "gaussian"):
            proved = epsilon_bound(mu + noise_N, other_N, DELTA, reads=reads)
            assert proved.epsilon <= epsilon
            assert proved.draws == 10_000
        half = epsilon_bound(mu + noise_N / 2, other_N / 2, DELTA, reads="gaussian")
        assert half.epsilon > epsilon
        assert half.mu is not None
        assert gaussian_epsilon(half.mu, DELTA) == half.epsilon


def test_the_bound_is_near_the_truth() -> None:
    """A bound that is always 0 would never refute anything."""
    generator = np.random.default_rng(0)
    with_N, without_N = 1.0 + generator.normal(size=50_000), generator.normal(size=50_000)
    true = gaussian_epsilon(1.0, DELTA)
    assert 0.9 * true < epsilon_bound(with_N, without_N, DELTA, reads="gaussian").epsilon <= true


def test_randomised_response() -> None:
    """Three true answers to one false one: epsilon is log 3, and counts come near to it."""
    generator = np.random.default_rng(1)
    with_N = (generator.random(40_000) < 0.75).astype(float)
    without_N = (generator.random(40_000) < 0.25).astype(float)
    proved = epsilon_bound(with_N, without_N, 0.0)
    assert 0.9 * math.log(3) < proved.epsilon <= math.log(3)


def test_either_side_may_be_the_one_that_tells() -> None:
    """Rare false alarms among those who are in: the test says "out"."""
    generator = np.random.default_rng(2)
    with_N = 5.0 + generator.random(4000)
    without_N = np.where(generator.random(4000) < 0.5, 5.0 + generator.random(4000), 0.0)
    proved = epsilon_bound(with_N, without_N, DELTA)
    assert proved.says == "out"
    assert proved.true_rate == pytest.approx(0.5, abs=0.05)
    assert proved.false_rate == 0.0
    assert epsilon_bound(without_N, with_N, DELTA).says == "in" or proved.epsilon > 3


def test_equal_draws_prove_nothing() -> None:
    same_N = np.zeros(1000)
    for reads in ("counts", "gaussian"):
        assert epsilon_bound(same_N, same_N, DELTA, reads=reads).epsilon == 0.0


def test_mistakes() -> None:
    draws_N = np.zeros(100)
    for given, sentence in (
        ((draws_N[:3], draws_N, DELTA), "at least 8 draws"),
        ((draws_N + np.inf, draws_N, DELTA), "not finite"),
        ((draws_N, draws_N, 2.0), "delta is 2"),
    ):
        with pytest.raises(TacitError, match=sentence):
            epsilon_bound(*given)
    with pytest.raises(TacitError, match="level is 1"):
        epsilon_bound(draws_N, draws_N, DELTA, level=1.0)
