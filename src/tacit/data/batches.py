"""The samples of a round in batches, for a block of clients, and their histories among the rows.

Clients draw exactly what each would draw alone; what fills a block up has weight 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import REDRAW_CODES, Sampling, client_keys, draw_client
from tacit.data.views import Lists, TrainView


@dataclass(frozen=True, eq=False)
class BlockDraws:
    """The round of B clients: which rows each touches, and its batches as positions in those rows.

    Axes: T epochs, S steps, B clients, W samples of a batch (padding has weight 0), R rows.
    Clients stand in the given order; `steps_B` says how many steps each really has.
    """

    item_BR: np.ndarray  # distinct items in the order of first touch
    rows_B: np.ndarray  # how many of them are real
    row_TSBW: np.ndarray
    label_TSBW: np.ndarray
    weight_SBW: np.ndarray
    steps_B: np.ndarray
    samples_B: np.ndarray


def draw_block(
    train: TrainView,
    user_B: np.ndarray,
    samples_U: np.ndarray,
    sampling: Sampling,
    *,
    batch: int,
    epochs: int,
    seed: int,
    round_number: int,
    dtype: type = np.float32,
    all_rows: bool = False,
) -> BlockDraws:
    """Draw negatives and shuffle, exactly as each client would do alone.

    `samples_U` is `samples_per_user(train, sampling)`, which an engine computes once. With
    `all_rows` every client has all items as rows, for rules that move the whole table.
    """
    samples_B = samples_U[user_B]
    longest = int(samples_B.max())
    width = min(batch, longest)
    n_steps = -(-longest // width)
    draws = epochs if sampling.redraw_code == REDRAW_CODES["epoch"] else 1
    room = int(min(train.n_items, longest * draws))
    shape = (n_steps, len(user_B), width)
    item_BR = np.zeros((len(user_B), room), dtype=np.int64)
    rows_B = np.zeros(len(user_B), dtype=np.int64)
    row_TSBW = np.zeros((epochs, *shape), dtype=np.int64)
    label_TSBW: np.ndarray = np.zeros((epochs, *shape), dtype=dtype)
    weight_SBW: np.ndarray = np.zeros(shape, dtype=dtype)
    _fill(
        seed,
        round_number,
        sampling.redraw_code,
        np.ascontiguousarray(user_B, dtype=np.int64),
        train.user_key_U,
        train.positives.start_U1,
        train.positives.item_N,
        train.hidden_from_negatives.start_U1,
        train.hidden_from_negatives.item_N,
        train.n_items,
        sampling.negatives,
        item_BR,
        rows_B,
        row_TSBW,
        label_TSBW,
        weight_SBW,
    )
    item_BR = np.ascontiguousarray(item_BR[:, : int(rows_B.max())])
    steps_B = -(-samples_B // width)
    if all_rows:
        for b in range(len(user_B)):
            row_TSBW[:, :, b] = item_BR[b][row_TSBW[:, :, b]]
        item_BR = np.tile(np.arange(train.n_items), (len(user_B), 1))
        rows_B = np.full(len(user_B), train.n_items)
    return BlockDraws(item_BR, rows_B, row_TSBW, label_TSBW, weight_SBW, steps_B, samples_B)


@compiled(error_model="numpy", nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    seed,
    round_number,
    redraw,
    users,
    user_keys,
    positive_start,
    positive_item,
    hidden_start,
    hidden_item,
    n_items,
    n_negatives,
    item_BR,
    rows_B,
    row_TSBW,
    label_TSBW,
    weight_SBW,
):
    epochs, n_steps, _, width = row_TSBW.shape
    blocked = np.zeros(n_items, np.uint8)
    place = np.full(n_items, -1, np.int64)
    items = np.empty(n_steps * width, np.int64)
    labels = np.empty(n_steps * width, np.uint8)
    for b in range(len(users)):
        user = users[b]
        positives = positive_item[positive_start[user] : positive_start[user + 1]]
        hidden = hidden_item[hidden_start[user] : hidden_start[user + 1]]
        rows = 0
        for epoch in range(epochs):
            negative_key, shuffle_key = client_keys(
                seed, round_number, epoch, redraw, user_keys[user]
            )
            n = draw_client(
                negative_key,
                shuffle_key,
                positives,
                hidden,
                n_items,
                n_negatives,
                items,
                labels,
                blocked,
            )
            for t in range(n):
                item = items[t]
                if place[item] < 0:
                    place[item] = rows
                    item_BR[b, rows] = item
                    rows += 1
                step = t // width
                slot = t - step * width
                row_TSBW[epoch, step, b, slot] = place[item]
                label_TSBW[epoch, step, b, slot] = labels[t]
                weight_SBW[step, b, slot] = 1.0 / min(width, n - step * width)
        rows_B[b] = rows
        for r in range(rows):
            place[item_BR[b, r]] = -1


def past_of_block(
    train: TrainView, user_B: np.ndarray, draws: BlockDraws
) -> tuple[np.ndarray, np.ndarray]:
    """(row_BH, weight_BH): positions of each client's train items in its rows, and 1 / how many.

    Every epoch of a round visits all of them, so they are all there; padding has weight 0.
    """
    own = [np.unique(train.positives[int(user)]) for user in user_B]
    longest = max(1, max(len(items) for items in own))
    row_BH = np.zeros((len(own), longest), dtype=np.int64)
    weight_BH = np.zeros((len(own), longest), dtype=draws.weight_SBW.dtype)
    place_I = np.full(train.n_items, -1, dtype=np.int64)
    for b, items in enumerate(own):
        touched = draws.item_BR[b, : draws.rows_B[b]]
        place_I[touched] = np.arange(len(touched))
        row_BH[b, : len(items)] = place_I[items]
        weight_BH[b, : len(items)] = 1.0 / max(1, len(items))
        place_I[touched] = -1
    return row_BH, weight_BH


def past_of_users(positives: Lists, user_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(item_BH, weight_BH): each user's own items, and 1 / how many; padding has weight 0.

    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([3, 4, 5]), 2)
    >>> [part.tolist() for part in past_of_users(lists, np.array([0, 1]))]
    [[[3, 4], [5, 0]], [[0.5, 0.5], [1.0, 0.0]]]
    """
    own = [np.unique(positives[int(user)]) for user in user_B]
    longest = max(1, max(len(items) for items in own))
    item_BH = np.zeros((len(own), longest), dtype=np.int64)
    weight_BH = np.zeros((len(own), longest))
    for b, items in enumerate(own):
        item_BH[b, : len(items)] = items
        weight_BH[b, : len(items)] = 1.0 / max(1, len(items))
    return item_BH, weight_BH
