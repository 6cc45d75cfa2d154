"""Rules that turn rows as published into the rows of an experiment; each says what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from tacit.data.dataset import Dataset, Step
from tacit.data.interactions import Interactions
from tacit.errors import TacitError, nearest, shown

MOST = 2**31  # nobody has so many rows


class Rule(Protocol):
    """Anything with `apply`: dataset in, dataset with one more step out."""

    def apply(self, dataset: Dataset) -> Dataset: ...


@dataclass(frozen=True)
class MinUser:
    """Keep users with at least n rows; counted once, repeats included, items left alone.

    >>> few = Dataset("few", Interactions.from_ids(["a", "a", "b"], ["x", "y", "x"]))
    >>> MinUser(2).apply(few).steps[0].after
    {'users': 1, 'items': 2, 'interactions': 2}
    """

    n: int

    def __post_init__(self) -> None:
        _check_count("The least number of rows per user", self.n)

    def apply(self, dataset: Dataset) -> Dataset:
        user_N = dataset.interactions.user_N
        rows_U = np.bincount(user_N, minlength=dataset.interactions.n_users)
        return _keep(dataset, rows_U[user_N] >= self.n, f"users with at least {self.n} rows")


@dataclass(frozen=True)
class KCore:
    """Drop users and items with fewer than k rows, again and again until none is left to drop.

    >>> few = Dataset("few", Interactions.from_ids(["a", "a", "b", "b", "c"], list("xyxyz")))
    >>> KCore(2).apply(few).interactions.users
    ('a', 'b')
    """

    k: int

    def __post_init__(self) -> None:
        _check_count("The k of a k-core", self.k)

    def apply(self, dataset: Dataset) -> Dataset:
        data = dataset.interactions
        kept_N = np.ones(len(data), dtype=bool)
        while True:
            rows_U = np.bincount(data.user_N[kept_N], minlength=data.n_users)
            rows_I = np.bincount(data.item_N[kept_N], minlength=data.n_items)
            next_N = kept_N & (rows_U[data.user_N] >= self.k) & (rows_I[data.item_N] >= self.k)
            if (next_N == kept_N).all():
                break
            kept_N = next_N
        return _keep(dataset, kept_N, f"{self.k}-core of users and items")


@dataclass(frozen=True)
class MinRating:
    """Keep rows with a rating of at least x.

    >>> rated = Dataset("rated", Interactions.from_ids(["a", "a"], ["x", "y"], value=[2, 4]))
    >>> MinRating(3).apply(rated).interactions.items
    ('y',)
    """

    x: float

    def __post_init__(self) -> None:
        if isinstance(self.x, bool) or not math.isfinite(self.x):
            raise TacitError(f"The least rating is {self.x!r}; it must be a finite number.")

    def apply(self, dataset: Dataset) -> Dataset:
        value_N = dataset.interactions.value_N
        if value_N is None:
            raise TacitError(
                f"{dataset.name!r} has no ratings, so none is at least {self.x:g}; leave out the "
                "rule or name the rating column."
            )
        return _keep(dataset, value_N >= self.x, f"rating at least {self.x:g}")


@dataclass(frozen=True)
class PositiveRating:
    """Drop rows with a rating of 0 or less, as the papers do; data without ratings passes.

    >>> rated = Dataset("rated", Interactions.from_ids(["a", "a"], ["x", "y"], value=[0, 4]))
    >>> len(PositiveRating().apply(rated).interactions)
    1
    """

    def apply(self, dataset: Dataset) -> Dataset:
        value_N = dataset.interactions.value_N
        if value_N is None:
            return _note(dataset, "rating above 0 (there are no ratings)")
        return _keep(dataset, value_N > 0, "rating above 0")


@dataclass(frozen=True)
class Duplicates:
    """What becomes of a repeated (user, item) pair: its `earliest` row stays, or all do (`keep`).

    Earliest by time, among equal times the first in the file; without time the first in the file.

    >>> twice = Dataset("twice", Interactions.from_ids(["a", "a"], ["x", "x"], time=[5, 3]))
    >>> Duplicates("earliest").apply(twice).interactions.time_N.tolist()
    [3]
    """

    which: Literal["earliest", "keep"] = "earliest"

    def __post_init__(self) -> None:
        if self.which not in ("earliest", "keep"):
            known = nearest(str(self.which), ("earliest", "keep"))
            raise TacitError(f"Duplicates cannot be {self.which!r}; {known}")

    def apply(self, dataset: Dataset) -> Dataset:
        first_N = first_of_pair(dataset.interactions)
        repeats = int((~first_N).sum())
        if self.which == "keep":
            return _note(dataset, f"repeated (user, item) pairs: all kept, {repeats} repeats")
        rule = f"repeated (user, item) pairs: earliest kept, {repeats} repeats dropped"
        return _keep(dataset, first_N, rule)


@dataclass(frozen=True)
class DistinctRows:
    """Of rows with the same user, item and time the first stays; other repeats are left alone.

    >>> ids = (["a", "a", "a"], ["x", "x", "x"])
    >>> thrice = Dataset("thrice", Interactions.from_ids(*ids, time=[5, 5, 6]))
    >>> DistinctRows().apply(thrice).interactions.time_N.tolist()
    [5, 6]
    """

    def apply(self, dataset: Dataset) -> Dataset:
        rows = dataset.interactions
        time_N = np.zeros(len(rows), np.int64) if rows.time_N is None else rows.time_N
        whole_N3 = np.stack([rows.user_N, rows.item_N, time_N], axis=1)
        _, first = np.unique(whole_N3, axis=0, return_index=True)
        kept_N = np.zeros(len(rows), dtype=bool)
        kept_N[first] = True
        return _keep(dataset, kept_N, "one row for each user, item and time")


def first_of_pair(interactions: Interactions) -> np.ndarray:
    """Mask of the rows that are the earliest of their (user, item) pair.

    >>> first_of_pair(Interactions.from_ids(["a", "a"], ["x", "x"], time=[5, 3])).tolist()
    [False, True]
    """
    pair_N = interactions.user_N * interactions.n_items + interactions.item_N
    time_N = interactions.time_N
    # Both sorts are stable, so rows that tie stay in the order of the file.
    order = np.argsort(pair_N, kind="stable") if time_N is None else np.lexsort((time_N, pair_N))
    pair_N = pair_N[order]
    first_N = np.zeros(len(order), dtype=bool)
    first_N[order[np.concatenate([[True], pair_N[1:] != pair_N[:-1]])]] = True
    return first_N


def _check_count(what: str, n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n < MOST:
        raise TacitError(
            f"{what} is {shown(n)}; it must be a whole number of at least 1 and below {MOST:,}."
        )


def _keep(dataset: Dataset, kept_N: np.ndarray, rule: str) -> Dataset:
    if not kept_N.any():
        raise TacitError(
            f"The rule '{rule}' leaves nobody of {dataset.name!r} "
            f"({dataset.interactions.n_users} users before); use a weaker rule."
        )
    return dataset.keep(kept_N, rule)


def _note(dataset: Dataset, rule: str) -> Dataset:
    counts = dataset.interactions.counts
    return replace(dataset, steps=(*dataset.steps, Step(rule, counts, counts)))
