"""The samples of a round, drawn per client and laid out for a block of clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.data.drawing import REDRAW_CODES, client_keys, draw_client
from tacit.data.sampling import Sampling
from tacit.data.views import TrainView


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
