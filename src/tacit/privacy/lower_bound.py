"""What a test proves about epsilon from below.

A test looks at a number that was released and says whether a person is in it. If the release is
(epsilon, delta) private, then among releases with the person and releases without

    rate of true alarms <= e^epsilon * rate of false alarms + delta,

and the same holds with "in" and "out" swapped. So rates that were measured bound epsilon from
below, whatever mechanism it was. If the mechanism is Gaussian, more follows: no test has a true
rate above Phi(mu + Phi^-1(false rate)), so rates bound mu, and mu gives epsilon in closed form.
That second bound is far tighter for large epsilons, where a count never sees the rare false alarms
that the first one needs.

Rates are counted on draws that did not choose the threshold, and enter with exact (Clopper and
Pearson) bounds. Shape suffixes: N draws, C candidates for a threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from tacit.errors import TacitError, shown
from tacit.privacy.accounting import gaussian_epsilon, require_delta

CANDIDATES = 400  # thresholds that are tried
REACH = 5.0  # standard deviations around the mean of all draws in which they lie

Says = Literal["in", "out"]  # of what stands above the threshold ("in") or below it ("out")
Reads = Literal["counts", "gaussian"]


def lower_rate(hits: np.ndarray, trials: int, error: float) -> np.ndarray:
    """The rate that is exceeded with probability 1 - error, from hits of so many trials.

    >>> lower_rate(np.array([0, 10]), 10, 0.05).round(4).tolist()
    [0.0, 0.7411]
    """
    hits = np.asarray(hits)
    found = betaincinv(np.maximum(hits, 1), trials - hits + 1, error)
    return np.where(hits == 0, 0.0, found)


def upper_rate(hits: np.ndarray, trials: int, error: float) -> np.ndarray:
    """The rate that is not exceeded with probability 1 - error.

    >>> upper_rate(np.array([0, 10]), 10, 0.05).round(4).tolist()
    [0.2589, 1.0]
    """
    hits = np.asarray(hits)
    found = betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - error)
    return np.where(hits == trials, 1.0, found)


@dataclass(frozen=True)
class EpsilonBound:
    """What one test proved: its threshold, how often it was right and wrong, and the epsilon below
    which the release cannot be. `mu` is that of a Gaussian mechanism; None where counts alone
    speak."""

    reads: Reads
    says: Says
    threshold: float
    true_rate: float
    false_rate: float
    true_rate_low: float
    false_rate_high: float
    epsilon: float
    mu: float | None
    level: float
    draws: int  # of each kind, on which the rates were counted


def epsilon_bound(
    with_N: np.ndarray,
    without_N: np.ndarray,
    delta: float,
    *,
    reads: Reads = "counts",
    level: float = 0.999,
) -> EpsilonBound:
    """The bound on epsilon from draws of a statistic with a person and without.

    The first half of each chooses what to say and where the threshold is, the second is counted.

    >>> generator = np.random.default_rng(0)
    >>> without_N = generator.normal(size=20_000)
    >>> with_N = 1.0 + generator.normal(size=20_000)  # mu = 1
    >>> for reads in ("counts", "gaussian"):
    ...     round(epsilon_bound(with_N, without_N, 1e-5, reads=reads).epsilon, 2)
    1.93
    3.8
    >>> round(gaussian_epsilon(1.0, 1e-5), 2)  # what is true
    4.38
    """
    if delta:  # pure epsilon has none
        require_delta(delta)
    if min(len(with_N), len(without_N)) < 8:
        raise TacitError("A bound on epsilon needs at least 8 draws with and 8 without a person.")
    if not (np.isfinite(with_N).all() and np.isfinite(without_N).all()):
        raise TacitError("Some draws are not finite numbers, so no test can be made of them.")
    if not 0 < level < 1:
        raise TacitError(f"level is {shown(level)}; it must lie between 0 and 1.")
    reading = _Reading(reads, delta, level)
    (chosen_with_N, with_N), (chosen_without_N, without_N) = _halves(with_N), _halves(without_N)
    says, threshold = reading.chosen(chosen_with_N, chosen_without_N)
    return reading.counted(with_N, without_N, says, threshold)


def _halves(draw_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return draw_N[: len(draw_N) // 2], draw_N[len(draw_N) // 2 :]


@dataclass(frozen=True)
class _Reading:
    """How numbers of alarms are turned into a bound."""

    reads: Reads
    delta: float
    level: float

    def chosen(self, with_N: np.ndarray, without_N: np.ndarray) -> tuple[Says, float]:
        """What to say and from where on. Half of the draws proposes: by the counts to be expected
        if both kinds were normal, and by the counts themselves, which luck leads astray where
        alarms are rare. The other half decides between the two."""
        (with_N, other_with_N), (without_N, other_without_N) = _halves(with_N), _halves(without_N)
        all_N = np.concatenate([with_N, without_N])
        even_C = all_N.mean() + all_N.std() * np.linspace(-REACH, REACH, CANDIDATES)
        edge_C = np.unique(np.quantile(all_N, np.linspace(0, 1, CANDIDATES)))
        between_C = (edge_C[1:] + edge_C[:-1]) / 2 if len(edge_C) > 1 else edge_C
        proposed = [
            self._best(even_C, *(_if_normal(one_N, even_C) for one_N in (with_N, without_N))),
            self._best(between_C, *(_below(one_N, between_C) for one_N in (with_N, without_N))),
        ]
        return max(
            proposed, key=lambda one: self.counted(other_with_N, other_without_N, *one).epsilon
        )

    def _best(self, threshold_C: np.ndarray, with_: _Below, without: _Below) -> tuple[Says, float]:
        """The threshold that proves most, by how many draws lie below each."""
        best: tuple[float, Says, float] = (-math.inf, "in", 0.0)
        alarms: dict[Says, tuple[_Below, _Below]] = {
            "in": (with_.above, without.above),
            "out": (without, with_),
        }
        for says, (true, false) in alarms.items():
            value_C = self._proved(true, false)[0]
            at = int(np.argmax(value_C))
            best = max(best, (float(value_C[at]), says, float(threshold_C[at])))
        return best[1], best[2]

    def counted(
        self, with_N: np.ndarray, without_N: np.ndarray, says: Says, threshold: float
    ) -> EpsilonBound:
        """What a test proves on some draws."""
        at_1 = np.array([threshold])
        with_, without = _below(with_N, at_1), _below(without_N, at_1)
        true, false = (with_.above, without.above) if says == "in" else (without, with_)
        value, low, high = (float(one[0]) for one in self._proved(true, false))
        mu = max(0.0, value) if self.reads == "gaussian" else None
        return EpsilonBound(
            self.reads,
            says,
            threshold,
            float(true.draws_C[0] / true.of),
            float(false.draws_C[0] / false.of),
            low,
            high,
            max(0.0, value) if mu is None else gaussian_epsilon(mu, self.delta),
            mu,
            self.level,
            min(true.of, false.of),
        )

    def _proved(self, true: _Below, false: _Below) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What alarms prove (an epsilon, or a mu), and the bounds on their rates, which hold
        together with probability `level`."""
        error = (1 - self.level) / 2
        low_C = lower_rate(true.draws_C, true.of, error)
        high_C = upper_rate(false.draws_C, false.of, error)
        if self.reads == "counts":
            return np.log(np.maximum(low_C - self.delta, 1e-300) / high_C), low_C, high_C
        sure_C = (low_C > 0) & (high_C < 1)  # other rates prove nothing
        mu_C = ndtri(np.where(sure_C, low_C, 0.5)) - ndtri(np.where(sure_C, high_C, 0.5))
        return mu_C, low_C, high_C


class _Below(NamedTuple):
    """How many of some draws lie on one side of each threshold."""

    draws_C: np.ndarray
    of: int

    @property
    def above(self) -> _Below:
        return _Below(self.of - self.draws_C, self.of)


def _below(draw_N: np.ndarray, threshold_C: np.ndarray) -> _Below:
    return _Below(np.searchsorted(np.sort(draw_N), threshold_C), len(draw_N))


def _if_normal(draw_N: np.ndarray, threshold_C: np.ndarray) -> _Below:
    """How many would lie below each threshold if the draws were normal."""
    share_C = ndtr((threshold_C - draw_N.mean()) / max(float(draw_N.std()), 1e-300))
    return _Below(np.round(share_C * len(draw_N)), len(draw_N))
