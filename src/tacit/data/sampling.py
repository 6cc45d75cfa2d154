"""Training samples of one client: its positives, drawn negatives, and their order; sampled
candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.compiled import compiled
from tacit.data.views import Lists, TrainView
from tacit.errors import TacitError, nearest, shown
from tacit.streams import CANDIDATES, NEGATIVES, SHUFFLE, draw_below, stream_key

# Compiled draws of one client: positives, negatives, order.
#
# Engines call these from inside their own kernels; `tacit.data.sampling` is the readable side. The
# functions hold no state. `blocked` is a bitmap over items (uint8) that the caller owns and lends:
# all zero before and after `draw_ordered` and `draw_client`.

REDRAW_CODES = {"round": 0, "epoch": 1, "once": 2}  # kernels take the number
_ATTEMPTS = 64  # per slot; then an exact choice: the draw ends even for who has nearly every item
_EPOCHS = 65536  # a round owns this many stream numbers, one per local epoch

_compiled = compiled(error_model="numpy")


@_compiled
def client_keys(seed, round_number, epoch, redraw_code, user_key):  # type: ignore[no-untyped-def]
    """(negative key, shuffle key) of one client; rounds count from 1, local epochs from 0.

    Called from Python, the keys come back as plain integers: wrap them in `np.uint64` again before
    handing them on, since numba takes a plain integer for a signed one.
    """
    moment = round_number * _EPOCHS + epoch
    drawn_at = moment
    if redraw_code == 0:
        drawn_at = round_number
    elif redraw_code == 2:
        drawn_at = 0
    negative_key = stream_key(seed, NEGATIVES, drawn_at, user_key)
    return negative_key, stream_key(seed, SHUFFLE, moment, user_key)


@_compiled
def draw_free(key, slot, n_items, n_free, blocked):  # type: ignore[no-untyped-def]
    """An item that is not blocked, uniformly; `n_free` of them there are, at least one.

    Attempt a of slot j is number (j << 16) + a of the stream: no slot depends on how often another
    was refused, so slots can be drawn side by side.
    """
    first = slot << 16
    for attempt in range(_ATTEMPTS):
        item = draw_below(key, first + attempt, n_items)
        if blocked[item] == 0:
            return item
    left = draw_below(key, first + _ATTEMPTS, n_free)
    for item in range(n_items):
        if blocked[item] == 0:
            if left == 0:
                return item
            left -= 1
    return -1


@_compiled
def block(items, blocked):  # type: ignore[no-untyped-def]
    """Mark items in the bitmap; how many were not marked before."""
    n_new = 0
    for item in items:
        n_new += 1 - blocked[item]
        blocked[item] = 1
    return n_new


@_compiled
def unblock(items, blocked):  # type: ignore[no-untyped-def]
    for item in items:
        blocked[item] = 0


@_compiled
def draw_ordered(key, positives, hidden, n_items, n_negatives, out_item, out_label, blocked):  # type: ignore[no-untyped-def]
    """Each positive followed by its negatives, in list order; returns how many samples."""
    n_free = n_items - block(positives, blocked)
    n_free -= block(hidden, blocked)
    n_drawn = min(n_negatives, n_free)
    n = 0
    for j in range(len(positives)):
        out_item[n] = positives[j]
        out_label[n] = 1
        n += 1
        for q in range(n_drawn):
            item = draw_free(key, j * n_negatives + q, n_items, n_free - q, blocked)
            blocked[item] = 1  # distinct within this positive
            out_item[n] = item
            out_label[n] = 0
            n += 1
        unblock(out_item[n - n_drawn : n], blocked)
    unblock(positives, blocked)
    unblock(hidden, blocked)
    return n


@_compiled
def draw_client(  # type: ignore[no-untyped-def]
    negative_key,
    shuffle_key,
    positives,
    hidden,
    n_items,
    n_negatives,
    out_item,
    out_label,
    blocked,
):
    """All samples of one client, shuffled, into the `out` arrays; returns how many."""
    n = draw_ordered(
        negative_key, positives, hidden, n_items, n_negatives, out_item, out_label, blocked
    )
    for i in range(n - 1, 0, -1):
        j = draw_below(shuffle_key, i, i + 1)
        out_item[i], out_item[j] = out_item[j], out_item[i]
        out_label[i], out_label[j] = out_label[j], out_label[i]
    return n


# Training samples of one client: its positives, drawn negatives, and their order.
#
# Samples come from a `TrainView` and nothing else. A draw is a pure function of (seed, round,
# epoch, user key), so it is the same alone on a device or in a block; engines that draw inside
# their own kernels call the same `client_keys` and `draw_client`.

MOST_NEGATIVES = 1_000_000  # per positive; more than the largest catalogues have items to draw


@dataclass(frozen=True)
class Sampling:
    """How many negatives stand beside each positive, and how often they are drawn anew.

    `round`: in each round, reused by its epochs; `epoch`: in each local epoch; `once`: never again.

    >>> Sampling().negatives, Sampling(redraw="epoch").redraw_code
    (4, 1)
    """

    negatives: int = 4
    redraw: Literal["round", "epoch", "once"] = "round"

    def __post_init__(self) -> None:
        if not 0 <= self.negatives <= MOST_NEGATIVES:
            raise TacitError(
                f"negatives is {shown(self.negatives)}; use 0 or more per positive, and at most "
                f"{MOST_NEGATIVES}."
            )
        if self.redraw not in REDRAW_CODES:
            raise TacitError(
                f"Unknown redraw {self.redraw!r}: {nearest(self.redraw, REDRAW_CODES)}"
            )

    @property
    def redraw_code(self) -> int:
        return REDRAW_CODES[self.redraw]


@_compiled
def _pool_sizes(start, items, hidden_start, hidden_items, n_items):  # type: ignore[no-untyped-def]
    blocked = np.zeros(n_items, np.uint8)
    n_users = len(start) - 1
    pool_U = np.empty(n_users, np.int64)
    for user in range(n_users):
        positives = items[start[user] : start[user + 1]]
        hidden = hidden_items[hidden_start[user] : hidden_start[user + 1]]
        pool_U[user] = n_items - block(positives, blocked)
        pool_U[user] -= block(hidden, blocked)
        unblock(positives, blocked)
        unblock(hidden, blocked)
    return pool_U


def samples_per_user(train: TrainView, sampling: Sampling) -> np.ndarray:
    """How many samples each user has per epoch: positives * (1 + negatives there is room for).

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 2]), n_lists=2)
    >>> train = TrainView(3, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> samples_per_user(train, Sampling(negatives=2)).tolist()
    [4, 3]
    """
    pool_U = _pool_sizes(*_columns(train), train.n_items)
    return np.asarray(train.positives.size_U * (1 + np.minimum(sampling.negatives, pool_U)))


def draw_samples(
    train: TrainView, user: int, sampling: Sampling, *, seed: int, round_number: int, epoch: int
) -> tuple[np.ndarray, np.ndarray]:
    """The samples of one client in training order: item codes, and 1 for positive or 0.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0]), np.array([0, 1]), n_lists=1)
    >>> train = TrainView(4, lists, np.array([5], np.uint64), Lists.empty(1))
    >>> item_N, label_N = draw_samples(train, 0, Sampling(2), seed=0, round_number=1, epoch=0)
    >>> sorted(zip(item_N.tolist(), label_N.tolist()))
    [(0, 1), (1, 1), (2, 0), (2, 0), (3, 0), (3, 0)]
    """
    refuse_other_views(train)
    positives, hidden = train.positives[user], train.hidden_from_negatives[user]
    most = len(positives) * (1 + sampling.negatives)
    item_N, label_N = np.empty(most, np.int64), np.empty(most, np.uint8)
    user_key = train.user_key_U[user]
    negative_key, shuffle_key = client_keys(
        seed, round_number, epoch, sampling.redraw_code, user_key
    )
    blocked = np.zeros(train.n_items, np.uint8)
    n = draw_client(
        np.uint64(negative_key),
        np.uint64(shuffle_key),
        positives,
        hidden,
        train.n_items,
        sampling.negatives,
        item_N,
        label_N,
        blocked,
    )
    return item_N[:n], label_N[:n]


def _columns(train: TrainView) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    hidden = train.hidden_from_negatives
    return train.positives.start_U1, train.positives.item_N, hidden.start_U1, hidden.item_N


def refuse_other_views(train: TrainView) -> None:
    """Samples come from what people train on, and from nothing else."""
    if not isinstance(train, TrainView):
        raise TacitError(
            f"Samples are drawn from a TrainView, not from a {type(train).__name__}; pass "
            "split.train, so that held-out items stay out of training."
        )


# Sampled candidates: the few untouched items a held-out item is ranked against, drawn once.


@compiled(error_model="numpy")
def _fill(seed, user_key_U, start, items, half_start, n_items, valid_N, test_N):  # type: ignore[no-untyped-def]
    blocked = np.zeros(n_items, np.uint8)
    for user in range(len(start) - 1):
        first, half = half_start[user], half_start[user + 1] - half_start[user]
        key = stream_key(seed, CANDIDATES, 0, user_key_U[user])
        touched = items[start[user] : start[user + 1]]
        n_free = n_items - block(touched, blocked)
        for slot in range(2 * half):
            item = draw_free(key, slot, n_items, n_free - slot, blocked)
            blocked[item] = 1
            if slot < half:
                valid_N[first + slot] = item
            else:
                test_N[first + slot - half] = item
        unblock(touched, blocked)
        unblock(valid_N[first : first + half], blocked)
        unblock(test_N[first : first + half], blocked)


def draw_candidates(
    touched: Lists, evaluated_U: np.ndarray, user_key_U: np.ndarray, n_items: int, n: int, seed: int
) -> tuple[Lists, Lists]:
    """n items for validation and n others for test, per evaluated user, none of them touched.

    `touched` lists each user's distinct items over all parts. Who has fewer than 2 n untouched
    items gets as many as there are, half for each part.

    >>> touched = Lists.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 4]), n_lists=2)
    >>> keys, everybody = np.array([5, 6], np.uint64), np.ones(2, bool)
    >>> valid, test = draw_candidates(touched, everybody, keys, n_items=6, n=2, seed=0)
    >>> sorted([*valid[0].tolist(), *test[0].tolist()])
    [2, 3, 4, 5]
    """
    half_U = np.where(evaluated_U, np.minimum(n, (n_items - touched.size_U) // 2), 0)
    start_U1 = np.concatenate([[0], np.cumsum(half_U)]).astype(np.int64)
    valid_N, test_N = np.empty(start_U1[-1], np.int64), np.empty(start_U1[-1], np.int64)
    keys = np.ascontiguousarray(user_key_U, dtype=np.uint64)
    _fill(seed, keys, touched.start_U1, touched.item_N, start_U1, n_items, valid_N, test_N)
    return Lists(start_U1, valid_N), Lists(start_U1, test_N)
