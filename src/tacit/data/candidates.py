"""Sampled candidates: the few untouched items a held-out item is ranked against, drawn once."""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.data.drawing import block, draw_free, unblock
from tacit.data.views import Lists
from tacit.streams import CANDIDATES, stream_key


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
