"""Which part each interaction belongs to: train, validation or test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.compiled import compiled
from tacit.data.cold_parts import part_of_items
from tacit.data.dataset import Dataset
from tacit.data.protocol import SplitRule
from tacit.errors import TacitError
from tacit.streams import SPLIT, draw_unit, stream_key

TRAIN, VALID, TEST = 0, 1, 2  # as in Dataset.cold_part_I
SHORTEST = 3  # what a user needs to leave one interaction in each part


def part_of_rows(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """One part per interaction: 0 train, 1 validation, 2 test.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 4, ["a", "b", "c", "d"], time=[1, 4, 3, 2])
    >>> part_of_rows(Dataset("few", rows), SplitRule()).tolist()
    [0, 2, 1, 0]
    """
    if not len(dataset.interactions):
        return np.zeros(0, np.int8)
    rule = settled(rule, dataset)
    if rule.is_cold:
        return part_of_items(dataset, rule)[dataset.interactions.item_N]
    if rule.kind == "labels":
        return _predefined(dataset)
    if rule.kind == "leave_one_out":
        return _latest_held_out(dataset, _recency(dataset, rule), rule.ties, 0.0, 0.0)
    _check_shares(rule)
    if rule.kind == "ratio":
        recency_N = _random(dataset, rule.seed)
        return _latest_held_out(dataset, recency_N, rule.ties, rule.valid_share, rule.test_share)
    return _by_global_time(dataset, rule)


def settled(rule: SplitRule, dataset: Dataset) -> SplitRule:
    """The rule that splits this dataset: `released` is what its file makes of it, and an order by
    time, where there are no times but labels, is the labels.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], time=[1, 2, 3])
    >>> settled(SplitRule(kind="released"), Dataset("few", rows)).kind
    'leave_one_out'
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], label=[0, 1, 2])
    >>> settled(SplitRule(), Dataset("few", rows)).kind
    'labels'
    """
    if rule.kind == "released":
        labelled = dataset.interactions.label_N is not None
        return replace(rule, kind="labels" if labelled else "leave_one_out")
    return replace(rule, kind="labels") if by_labels_instead(rule, dataset) else rule


def by_labels_instead(rule: SplitRule, dataset: Dataset) -> bool:
    """Whether the rule asks for each person's latest by time, and the file has labels instead.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], label=[0, 1, 2])
    >>> by_labels_instead(SplitRule(order="random"), Dataset("few", rows))
    False
    """
    rows = dataset.interactions
    latest = rule.kind == "leave_one_out" and rule.order == "time"
    return latest and rows.time_N is None and rows.label_N is not None


def timestamps(dataset: Dataset) -> np.ndarray:
    """The timestamps, or one sentence on what to do without them."""
    time_N = dataset.interactions.time_N
    if time_N is None:
        raise TacitError(
            f"Dataset {dataset.name!r} has no timestamps, but the split asks for an order by time; "
            f"use {'--split labels, ' if dataset.interactions.label_N is not None else '--split '}"
            "random, row or item_appearance."
        )
    if time_N.dtype.kind not in "iufM":
        raise TacitError(
            f"The timestamps of dataset {dataset.name!r} are text (first {time_N[0]!s:.30}), which "
            "has no order in time; turn them into numbers or use --split random."
        )
    n_missing = int(np.isnan(time_N).sum())
    if n_missing:
        raise TacitError(
            f"Dataset {dataset.name!r} has {n_missing} interactions without a timestamp (first in "
            f"row {int(np.flatnonzero(np.isnan(time_N))[0])}), but the split asks for an order by "
            "time; drop them or use --split random."
        )
    return time_N


def _predefined(dataset: Dataset) -> np.ndarray:
    label_N = dataset.interactions.label_N
    if label_N is None:
        raise TacitError(
            f"Dataset {dataset.name!r} has no predefined split labels; use --split time or random, "
            "or name the label column of the file."
        )
    strange = np.flatnonzero((label_N < TRAIN) | (label_N > TEST))
    if len(strange):
        raise TacitError(
            f"Dataset {dataset.name!r} has the split label {label_N[strange[0]]} in row "
            f"{strange[0]}; use 0 for train, 1 for validation and 2 for test."
        )
    return label_N


def _recency(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """A number per interaction; the largest of a user is the latest."""
    rows = dataset.interactions
    if rule.order == "time":
        return timestamps(dataset)
    if rule.order == "random":
        return _random(dataset, rule.seed)
    if rule.order == "item_appearance":
        return rows.item_N
    return np.arange(len(rows))


def _latest_held_out(
    dataset: Dataset, recency_N: np.ndarray, ties: str, valid_share: float, test_share: float
) -> np.ndarray:
    """Hold out each user's latest rows: at least one per part, or nothing from short histories."""
    rows = dataset.interactions
    row_N = np.arange(len(rows))
    order = np.lexsort((row_N if ties == "last_row" else -row_N, recency_N, rows.user_N))
    size_U = np.bincount(rows.user_N, minlength=rows.n_users)
    test_U = np.minimum(_share_of(size_U, test_share), size_U - 2)
    valid_U = np.minimum(_share_of(size_U, valid_share), size_U - 1 - test_U)
    long_N = (size_U >= SHORTEST)[rows.user_N]
    from_end_N = np.empty(len(rows), np.int64)
    from_end_N[order] = np.cumsum(size_U)[rows.user_N[order]] - 1 - row_N
    part_N = np.full(len(rows), TRAIN, np.int8)
    part_N[long_N & (from_end_N < (valid_U + test_U)[rows.user_N])] = VALID
    part_N[long_N & (from_end_N < test_U[rows.user_N])] = TEST
    return part_N


def _share_of(size: np.ndarray, share: float) -> np.ndarray:
    """A share of so many, rounded down, but at least one (0.1 of 30 is 3 in floats as well)."""
    return np.maximum(1, np.floor(size * share + 1e-9)).astype(np.int64)


def _by_global_time(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """Cut at two moments for everybody; equal times fall into the same, later part."""
    time_N = timestamps(dataset)
    n = np.array(len(time_N))
    n_test = int(_share_of(n, rule.test_share))
    n_valid = int(_share_of(n, rule.valid_share))
    sorted_N = np.sort(time_N)
    part_N = np.full(len(time_N), TRAIN, np.int8)
    part_N[time_N >= sorted_N[max(0, len(time_N) - n_test - n_valid)]] = VALID
    part_N[time_N >= sorted_N[len(time_N) - n_test]] = TEST
    return part_N


def _check_shares(rule: SplitRule) -> None:
    valid, test = rule.valid_share, rule.test_share
    if not (valid > 0 and test > 0 and valid + test < 1):
        raise TacitError(
            f"The shares of validation ({valid}) and test ({test}) make no sense; both must be "
            "above 0 and together below 1, so that something is left to train on."
        )


@compiled(error_model="numpy")
def _fill_random(seed, user_N, user_key_U, out_N):  # type: ignore[no-untyped-def]
    n_seen_U = np.zeros(len(user_key_U), np.int64)
    for row in range(len(user_N)):
        user = user_N[row]
        key = stream_key(seed, SPLIT, 0, user_key_U[user])
        out_N[row] = draw_unit(key, n_seen_U[user])
        n_seen_U[user] += 1


def _random(dataset: Dataset, seed: int) -> np.ndarray:
    """A random number per interaction, from the user's own stream: order of users is nothing."""
    rows = dataset.interactions
    random_N = np.empty(len(rows), np.float64)
    _fill_random(seed, np.ascontiguousarray(rows.user_N), rows.user_key_U, random_N)
    return random_N
