"""Parts by global time: two moments cut everybody's history, so that nobody trains on the future.

The moments are the same for everybody. What lies before the first is train, what lies between them
is of the validation, what lies after the second is of the test: no train row is later than a
validation row, and no validation row later than a test row, whoever they belong to. With
`validation=latest` the first moment falls away: a person's latest new item before the second
validates, and the train rows of others may be later than that.
"""

from __future__ import annotations

import numpy as np

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import SplitRule
from tacit.errors import TacitError, argument, shown

# Which part an interaction belongs to. The last two are in no part: `PASSED` lies before the test,
# so a person who is tested has it already, and `LATER` lies after the test has begun.
TRAIN, VALID, TEST, PASSED, LATER = 0, 1, 2, 3, 4
N_PARTS = 5
POSITIONS_FROM = 0.9  # of all people begin at one and the same time: those are no moments


def timestamps(dataset: Dataset) -> np.ndarray:
    """The timestamps, or one sentence on what to do without them."""
    time_N = dataset.interactions.time_N
    if time_N is None:
        labelled = ["labels"] if dataset.interactions.label_N is not None else []
        first, *more = (*labelled, "random", "row")
        raise TacitError(
            f"Dataset {dataset.name!r} has no timestamps, but the split asks for an order by time; "
            f"use {argument('split', first)}, {', '.join(more)} or item_appearance."
        )
    if time_N.dtype.kind not in "iufM":
        raise TacitError(
            f"The timestamps of dataset {dataset.name!r} are text (first {time_N[0]!s:.30}), which "
            f"has no order in time; turn them into numbers or use {argument('split', 'random')}."
        )
    n_missing = int(np.isnan(time_N).sum())
    if n_missing:
        raise TacitError(
            f"Dataset {dataset.name!r} has {n_missing} interactions without a timestamp (first in "
            f"row {int(np.flatnonzero(np.isnan(time_N))[0])}), but the split asks for an order by "
            f"time; drop them or use {argument('split', 'random')}."
        )
    return time_N


def share_of(size: np.ndarray, share: float) -> np.ndarray:
    """A share of so many, rounded down, but at least one (0.1 of 30 is 3 in floats as well).

    >>> share_of(np.array([30, 4]), 0.1).tolist()
    [3, 1]
    """
    return np.maximum(1, np.floor(size * share + 1e-9)).astype(np.int64)


def by_global_time(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """The part of each interaction; equal times fall into the same, later part.

    `held_out="all"` holds out everything after a cut. `"first"` holds out each person's first new
    item after it, of people with at least `min_history` items before; other rows are in no part.

    >>> rows = Interactions.from_ids(["u"] * 5, ["a", "b", "c", "d", "e"], time=[1, 2, 3, 4, 5])
    >>> rule = SplitRule("global_time", valid_share=0.2, test_share=0.4)
    >>> by_global_time(Dataset("few", rows), rule).tolist()
    [0, 0, 1, 2, 2]
    >>> first = SplitRule("global_time", valid_share=0.2, test_share=0.4, held_out="first",
    ...     min_history=2)
    >>> by_global_time(Dataset("few", rows), first).tolist()
    [0, 0, 1, 2, 4]
    """
    time_N = timestamps(dataset)
    era_N = eras(time_N, rule)
    if rule.held_out == "all":
        return era_N
    if rule.min_history < 1:
        raise TacitError(
            f"protocol.split.min_history is {shown(rule.min_history)}; it must be at least 1, "
            "since nothing can be said of people without a past."
        )
    if are_positions(dataset.interactions):
        raise TacitError(
            f"The times of dataset {dataset.name!r} are positions in each person's own history, "
            "not moments that people have in common, so no cut by global time can be made; use "
            f"{argument('split', 'time')}."
        )
    return _first_new(dataset.interactions, time_N, era_N, rule)


def eras(time_N: np.ndarray, rule: SplitRule) -> np.ndarray:
    """Between which cuts each time lies: 0 before the first, 1 between them, 2 after the second.

    >>> eras(np.array([5, 1, 2, 9, 9]), SplitRule(valid_share=0.2, test_share=0.4)).tolist()
    [1, 0, 0, 2, 2]
    """
    n = len(time_N)
    n_test, n_valid = (int(share_of(np.array(n), s)) for s in (rule.test_share, rule.valid_share))
    sorted_N = np.sort(time_N)
    era_N = np.full(n, TRAIN, np.int8)
    era_N[time_N >= sorted_N[max(0, n - n_test - n_valid)]] = VALID
    era_N[time_N >= sorted_N[n - n_test]] = TEST
    return era_N


def in_time(rows: Interactions, time_N: np.ndarray, ties: str) -> np.ndarray:
    """Places of the interactions, user by user, each from the earliest to the latest.

    >>> rows = Interactions.from_ids("vuv", "abc", time=[2, 1, 2])
    >>> in_time(rows, rows.time_N, "last_row").tolist(), in_time(rows, rows.time_N, "first_row")
    ([0, 2, 1], array([2, 0, 1]))
    """
    row_N = np.arange(len(rows))
    return np.lexsort((row_N if ties == "last_row" else -row_N, time_N, rows.user_N))


def _first_new(
    rows: Interactions, time_N: np.ndarray, era_N: np.ndarray, rule: SplitRule
) -> np.ndarray:
    """Each person's first new item after a cut, or before the test their latest new one."""
    order = in_time(rows, time_N, rule.ties)
    user_N, era_N = rows.user_N[order], era_N[order]
    pair_N = user_N * rows.n_items + rows.item_N[order]
    new_N = np.zeros(len(rows), bool)  # nothing that the person has touched before
    new_N[np.unique(pair_N, return_index=True)[1]] = True
    latest = rule.validation == "latest"
    past_N = era_N < TEST if latest else era_N == TRAIN
    known_U = np.bincount(user_N[past_N & new_N], minlength=rows.n_users) >= rule.min_history
    may_N = new_N & known_U[user_N]
    part_N = np.array([TRAIN, TRAIN if latest else PASSED, LATER], np.int8)[era_N]
    if latest:
        place = np.flatnonzero(may_N & past_N)[::-1]
        held = place[np.unique(user_N[place], return_index=True)[1]]
        place_U = np.full(rows.n_users, len(rows))
        place_U[user_N[held]] = held
        after_N = np.arange(len(rows)) > place_U[user_N]  # repeats of items that came before
        part_N[past_N & (after_N | np.isin(pair_N, pair_N[held]))] = PASSED
        part_N[held] = VALID
    for era in (TEST,) if latest else (VALID, TEST):
        place = np.flatnonzero(may_N & (era_N == era))
        part_N[place[np.unique(user_N[place], return_index=True)[1]]] = era
    out_N = np.empty(len(rows), np.int8)
    out_N[order] = part_N
    return out_N


def tied_first(rows: Interactions, part_N: np.ndarray) -> np.ndarray:
    """Users whose test item shares its time with another item that is as new to them.

    >>> rows = Interactions.from_ids("uuuvvv", "abcabc", time=[1, 5, 5, 1, 5, 6])
    >>> tied_first(rows, np.array([0, 2, 4, 0, 2, 4])).tolist()
    [True, False]
    """
    assert rows.time_N is not None
    tied_U = np.zeros(rows.n_users, bool)
    test, later = np.flatnonzero(part_N == TEST), np.flatnonzero(part_N == LATER)
    place_U = np.full(rows.n_users, -1, np.int64)
    place_U[rows.user_N[test]] = test
    pair_N = rows.user_N * rows.n_items + rows.item_N
    before_N = (part_N != LATER) & (part_N != TEST)
    of_N = place_U[rows.user_N[later]]
    alike_N = (of_N >= 0) & (rows.time_N[later] == rows.time_N[of_N])
    alike_N &= (pair_N[later] != pair_N[of_N]) & ~np.isin(pair_N[later], pair_N[before_N])
    tied_U[rows.user_N[later[alike_N]]] = True
    return tied_U


def are_positions(rows: Interactions) -> bool:
    """Whether times are places in each person's own history: nearly everybody begins at the same,
    and nobody has two items at one time.

    >>> are_positions(Interactions.from_ids("uuvv", "abab", time=[0, 1, 0, 1]))
    True
    >>> are_positions(Interactions.from_ids("uuvv", "abab", time=[0, 5, 3, 9]))
    False
    """
    if rows.time_N is None or rows.n_users < 2 or rows.time_N.dtype.kind not in "iu":
        return False
    order = in_time(rows, rows.time_N, "last_row")
    user_N, time_N = rows.user_N[order], rows.time_N[order]
    if ((user_N[1:] == user_N[:-1]) & (time_N[1:] == time_N[:-1])).any():
        return False
    first_U = np.full(rows.n_users, np.iinfo(np.int64).max)
    np.minimum.at(first_U, rows.user_N, rows.time_N.astype(np.int64))
    return bool((first_U == first_U.min()).mean() >= POSITIONS_FROM)


POSITIONS = (
    "The times of this data are positions in each person's own history, not moments: the cut falls "
    "at one position for everybody, and says nothing of past and future."
)
