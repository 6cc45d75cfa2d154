"""Groups of users, counted by hand."""

from __future__ import annotations

import numpy as np

from tacit.analysis.groups import (
    activity,
    ends,
    ordered,
    popular_items,
    popular_shares,
    portion,
    user_groups,
)
from tacit.data.views import Lists, TrainView

# ten items; item 0 has 6 train interactions, item 1 has 4, items 2 and 3 have 2, the others 1 or 0
HISTORIES = [
    [0, 1],  # all popular
    [0, 1, 2],  # all popular
    [0, 1, 4, 5],  # half
    [0, 1, 2, 3, 6],  # 3 of 5
    [0, 7],  # half
    [0, 3, 8],  # 1 of 3
]
USERS = ["f", "e", "d", "c", "b", "a"]
ITEMS = list("jihgfedcba")  # ids fall while codes rise


def view() -> TrainView:
    pairs = [(user, item) for user, items in enumerate(HISTORIES) for item in items]
    user_N, item_N = np.array(pairs).T
    lists = Lists.from_pairs(user_N, item_N, len(HISTORIES))
    keys = np.zeros(len(HISTORIES), np.uint64)
    return TrainView(10, lists, keys, Lists.empty(len(HISTORIES)))


def test_popular_items_and_ties_by_id():
    assert view().popularity_I().tolist() == [6, 4, 2, 2, 1, 1, 1, 1, 1, 0]
    # the third place is tied between item 2 ("h") and item 3 ("g"): "g" comes first
    assert np.flatnonzero(popular_items(view(), ITEMS)).tolist() == [0, 1, 3]
    assert np.flatnonzero(popular_items(view(), list("abcdefghij"))).tolist() == [0, 1, 2]


def test_shares_of_popular_items():
    popular_I = popular_items(view(), list("abcdefghij"))  # 0, 1 and 2
    assert popular_shares(view(), popular_I).tolist() == [1, 1, 0.5, 0.6, 0.5, 1 / 3]


def test_order_by_value_then_id_and_no_history_no_group():
    order = ordered(np.array([1.0, 1.0, 0.5, 0.6, 0.5, np.nan]), USERS)
    assert order.tolist() == [4, 2, 3, 1, 0]  # "b" before "d", "e" before "f"


def test_ends_never_overlap():
    low, high = ends(np.arange(7), 5)
    assert (low.tolist(), high.tolist()) == ([0, 1, 2], [4, 5, 6])
    low, high = ends(np.arange(7), 2)
    assert (low.tolist(), high.tolist()) == ([0, 1], [5, 6])


def test_portions():
    assert [portion(share, 943) for share in (0.1, 0.2, 0.3)] == [94, 188, 282]
    assert portion(0.29, 100) == 29  # 0.29 * 100 is a little less than 29 in floating point


def test_all_groups():
    groups = user_groups(view(), USERS, list("abcdefghij"), n=2)
    assert groups["distinct"].tolist() == [5, 4]  # shares 1/3 and, of the two halves, user "b"
    assert groups["followers"].tolist() == [1, 0]
    by_activity = [4, 0, 5, 1, 2, 3]  # 2, 2, 3, 3, 4, 5 items; ties by id
    assert activity(view()).tolist() == [2, 3, 4, 5, 2, 3]
    assert groups["all"].tolist() == by_activity
    assert groups["cold 30%"].tolist() == [4]  # 30 % of 6 is 1
    assert groups["warm 30%"].tolist() == [3]
    quartiles = [groups[f"quartile {q}"].tolist() for q in (1, 2, 3, 4)]
    assert quartiles == [[4, 0], [5, 1], [2], [3]]
