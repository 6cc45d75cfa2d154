"""Is a difference significant? Users are resampled; seeds are averaged, their spread apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.errors import TacitError
from tacit.evaluation.metrics import per_user
from tacit.evaluation.ranks import Ranks, Ties
from tacit.streams import RESAMPLE, numpy_generator

_DRAWS_AT_ONCE = 4_000_000  # numbers held in memory at a time


@dataclass(frozen=True)
class Interval:
    """A mean difference a - b over users, its confidence interval, and a two-sided p-value.

    >>> Interval(difference=0.1, low=0.05, high=0.15, p_value=0.001).difference
    0.1
    """

    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds; one seed has no deviation.

    >>> Spread.of([0.25, 0.75]).mean, Spread.of([0.25]).deviation is None
    (0.5, True)
    """

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) == 0:
            raise TacitError("A spread over seeds needs at least one value; run at least one seed.")
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), deviation, len(values))

    def half_width(self, level: float = 0.95) -> float | None:
        """How far a confidence interval of the mean reaches to either side, by Student's t: wide
        where there are few seeds; None for a single one.

        >>> round(Spread.of([1.0, 2.0, 3.0]).half_width(), 2)  # 4.30 · 1 / √3
        2.48
        """
        if self.deviation is None:
            return None
        from scipy.special import stdtrit  # slow to import, and one seed needs none

        quantile = float(stdtrit(self.seeds - 1, (1 + level) / 2))
        return quantile * self.deviation / self.seeds**0.5


def per_user_over_seeds(
    ranks: Sequence[Ranks], name: str, ties: Ties = "expected"
) -> tuple[np.ndarray, np.ndarray]:
    """User codes, and each user's metric averaged over the seeds (one `Ranks` per seed).

    >>> good = Ranks(*np.array([[4], [0], [0], [0], [50]]), "test", "full")
    >>> poor = Ranks(*np.array([[4], [0], [40], [0], [50]]), "test", "full")
    >>> per_user_over_seeds([good, poor], "HR@10")[1].tolist()
    [0.5]
    """
    if len(ranks) == 0:
        raise TacitError("An average over seeds needs at least one run; give at least one.")
    users, values = zip(*(per_user(one, name, ties) for one in ranks), strict=True)
    if any(not np.array_equal(users[0], other) for other in users[1:]):
        raise TacitError(
            "The seeds evaluate different users, so they cannot be averaged user by user; "
            "give runs with one split."
        )
    return users[0], np.mean(values, axis=0)


def paired_bootstrap(
    a_U: np.ndarray,
    b_U: np.ndarray,
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Resample users with replacement and look at the mean of a - b (percentile interval).

    The p-value is twice the smaller share of resampled means on one side of zero, the observed one
    counted in, so that it is never 0 and agrees with the interval.

    >>> one = paired_bootstrap(np.array([1.0, 0.8, 0.9]), np.array([0.1, 0.0, 0.2]), draws=500)
    >>> round(one.difference, 3), one.low > 0, one.p_value < 0.05
    (0.8, True, True)
    """
    if a_U.shape != b_U.shape or a_U.ndim != 1 or len(a_U) == 0:
        raise TacitError(
            f"A paired comparison needs two values per user, but the sides have shapes {a_U.shape} "
            f"and {b_U.shape}; compare runs over the same users."
        )
    if not 0 < level < 1 or draws < 1:
        raise TacitError(
            f"A bootstrap needs at least 1 draw and a level between 0 and 1, not {draws} draws at "
            f"level {level}; give for instance draws=10000 and level=0.95."
        )
    difference_U = np.asarray(a_U, dtype=np.float64) - np.asarray(b_U, dtype=np.float64)
    generator, n = numpy_generator(seed, RESAMPLE, 0), len(difference_U)
    mean_D = np.empty(draws)
    step = max(1, _DRAWS_AT_ONCE // n)
    for first in range(0, draws, step):
        chosen = generator.integers(0, n, size=(min(step, draws - first), n), dtype=np.int32)
        mean_D[first : first + step] = difference_U[chosen].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(mean_D, [tail, 1 - tail])
    beyond = 1 + min(int((mean_D <= 0).sum()), int((mean_D >= 0).sum()))
    p_value = min(1.0, 2 * beyond / (draws + 1))
    return Interval(float(difference_U.mean()), float(low), float(high), p_value)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values over several methods: reject below 0.05 and errors stay below 0.05 in all.

    >>> holm({"a": 0.03, "b": 0.01})
    {'a': 0.03, 'b': 0.02}
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise TacitError(f"The p-value of {name!r} is {p}; it must lie between 0 and 1.")
    adjusted: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda key: p_values[key])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
