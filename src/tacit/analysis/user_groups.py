"""Groups of users by what they have: followers and distinct ones, cold and warm, quartiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.data.views import TrainView

POPULAR = 0.3  # of the catalogue
COLD = 0.3  # of the users, and as many warm ones


def portion(share: float, count: int) -> int:
    """So many of `count`, at least one.

    >>> portion(0.3, 10), portion(0.3, 1682), portion(0.1, 3)
    (3, 504, 1)
    """
    return max(1, int(share * count + 1e-9))


def popular_items(train: TrainView, ids: Sequence[str], share: float = POPULAR) -> np.ndarray:
    """True for the items with most train interactions; equal ones in the order of their ids.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([2, 1, 2]), 2)
    >>> view = TrainView(4, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> popular_items(view, ["d", "c", "b", "a"], 0.5).tolist()
    [False, True, True, False]
    """
    count_I = train.popularity_I()
    order = sorted(range(train.n_items), key=lambda item: (-count_I[item], ids[item]))
    popular_I = np.zeros(train.n_items, dtype=bool)
    popular_I[order[: portion(share, train.n_items)]] = True
    return popular_I


def popular_shares(train: TrainView, popular_I: np.ndarray) -> np.ndarray:
    """The share of popular items among each user's train items; NaN without any.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([2, 1, 2]), 3)
    >>> view = TrainView(3, lists, np.zeros(3, np.uint64), Lists.empty(3))
    >>> popular_shares(view, np.array([False, False, True])).tolist()
    [0.5, 1.0, nan]
    """
    size_U = train.positives.size_U
    user_N = np.repeat(np.arange(train.n_users), size_U)
    hits_U = np.bincount(user_N, popular_I[train.positives.item_N], minlength=train.n_users)
    return np.divide(hits_U, size_U, out=np.full(train.n_users, np.nan), where=size_U > 0)


def ordered(value_U: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    """User codes by rising value, equal ones by id; users without a value (NaN) are left out.

    >>> ordered(np.array([2.0, 1.0, 1.0, np.nan]), ["d", "c", "b", "a"]).tolist()
    [2, 1, 0]
    """
    known = np.flatnonzero(~np.isnan(value_U))
    return np.array(sorted(known.tolist(), key=lambda u: (value_U[u], ids[u])), dtype=np.int64)


def ends(order: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last n of an order; both are cut to half of it, so nobody is in both.

    >>> [end.tolist() for end in ends(np.array([5, 6, 7, 8, 9]), 3)]
    [[5, 6], [8, 9]]
    """
    n = min(n, len(order) // 2)
    return order[:n], order[len(order) - n :]


def activity(train: TrainView) -> np.ndarray:
    """How many train items each user has; NaN for none, as such a user belongs to no group."""
    size_U = train.positives.size_U.astype(np.float64)
    size_U[size_U == 0] = np.nan
    return size_U


def user_groups(
    train: TrainView, users: Sequence[str], items: Sequence[str], n: int = 100
) -> dict[str, np.ndarray]:
    """All groups by name, as user codes: everybody, `n` distinct users and followers, cold and
    warm ones, and quartiles of activity.
    """
    share_order = ordered(popular_shares(train, popular_items(train, items)), users)
    order = ordered(activity(train), users)
    distinct, followers = ends(share_order, n)
    cold, warm = ends(order, portion(COLD, len(order)))
    quartiles = np.array_split(order, 4)
    return {
        "all": order,
        "distinct": distinct,
        "followers": followers,
        f"cold {COLD:.0%}": cold,
        f"warm {COLD:.0%}": warm,
        **{f"quartile {place}": part for place, part in enumerate(quartiles, 1)},
    }
