"""The samples of a round in batches, for a block of clients, and their histories among the rows.

Clients draw exactly what each would draw alone; what fills a block up has weight 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import REDRAW_CODES, Sampling, client_keys, draw_client
from tacit.data.views import Lists, TrainView

# What one client draws, inside of kernels.


class Drawing(NamedTuple):
    """All that decides what clients draw in one round, as kernels take it."""

    seed: int
    round_number: int
    redraw: int  # one of REDRAW_CODES
    user_key_U: np.ndarray
    positive_start_U1: np.ndarray
    positive_item_N: np.ndarray
    hidden_start_U1: np.ndarray
    hidden_item_N: np.ndarray
    n_items: int
    negatives: int

    @classmethod
    def of(cls, train: TrainView, sampling: Sampling, seed: int, round_number: int) -> Drawing:
        """Of the clients of a view."""
        return cls(
            seed,
            round_number,
            sampling.redraw_code,
            train.user_key_U,
            train.positives.start_U1,
            train.positives.item_N,
            train.hidden_from_negatives.start_U1,
            train.hidden_from_negatives.item_N,
            train.n_items,
            sampling.negatives,
        )


class Samples(NamedTuple):
    """Room for the samples of one client in one epoch, lent by a thread."""

    item: np.ndarray
    label: np.ndarray
    blocked: np.ndarray  # a bitmap over items, all zero between two draws


@compiled(error_model="numpy")
def make_samples(n_items, most):  # type: ignore[no-untyped-def]
    """Room for at most `most` samples."""
    return Samples(np.empty(most, np.int64), np.empty(most, np.uint8), np.zeros(n_items, np.uint8))


@compiled(error_model="numpy")
def positives_of(drawing, user):  # type: ignore[no-untyped-def]
    """The items of a client's own history."""
    start = drawing.positive_start_U1
    return drawing.positive_item_N[start[user] : start[user + 1]]


@compiled(error_model="numpy")
def draw_epoch(drawing, user, epoch, samples):  # type: ignore[no-untyped-def]
    """Draw one client's samples of an epoch and shuffle them; returns how many there are."""
    start = drawing.hidden_start_U1
    negative_key, shuffle_key = client_keys(
        drawing.seed, drawing.round_number, epoch, drawing.redraw, drawing.user_key_U[user]
    )
    return draw_client(
        negative_key,
        shuffle_key,
        positives_of(drawing, user),
        drawing.hidden_item_N[start[user] : start[user + 1]],
        drawing.n_items,
        drawing.negatives,
        samples.item,
        samples.label,
        samples.blocked,
    )


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
    weight_SBW: np.ndarray  # 1 / size of the batch
    steps_B: np.ndarray
    samples_B: np.ndarray
    counts_TSBW: np.ndarray | None = None  # how often a sample counts; None: all once

    def weights(self, epoch: int, step: int) -> np.ndarray:
        """(B, W): the weights of the samples of one step."""
        weight_BW: np.ndarray = self.weight_SBW[step]
        return weight_BW if self.counts_TSBW is None else weight_BW * self.counts_TSBW[epoch, step]


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
        Drawing.of(train, sampling, seed, round_number),
        np.ascontiguousarray(user_B, dtype=np.int64),
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


def counted(
    draws: BlockDraws, positives: Lists, user_B: np.ndarray, count_N: np.ndarray | None
) -> BlockDraws:
    """The draws of a block where each entry of `positives` counts as often as `count_N` says, and
    a negative once; None: as they are. Equal items of one user have equal counts."""
    if count_N is None:
        return draws
    counts_TSBW: np.ndarray = np.ones_like(draws.label_TSBW)
    count_I = np.ones(max(int(draws.item_BR.max()), int(positives.item_N.max())) + 1)
    for b, user in enumerate(user_B):
        own = slice(*positives.start_U1[user : user + 2])
        count_I[positives.item_N[own]] = count_N[own]
        drawn = count_I[draws.item_BR[b][draws.row_TSBW[:, :, b]]]
        counts_TSBW[:, :, b] = np.where(draws.label_TSBW[:, :, b] > 0, drawn, 1.0)
        count_I[positives.item_N[own]] = 1.0
    return replace(draws, counts_TSBW=counts_TSBW)


@compiled(error_model="numpy", nogil=True)
def _fill(drawing, users, item_BR, rows_B, row_TSBW, label_TSBW, weight_SBW):  # type: ignore[no-untyped-def]
    epochs, n_steps, _, width = row_TSBW.shape
    place = np.full(drawing.n_items, -1, np.int64)
    samples = make_samples(drawing.n_items, n_steps * width)
    items, labels = samples.item, samples.label
    for b in range(len(users)):
        rows = 0
        for epoch in range(epochs):
            n = draw_epoch(drawing, users[b], epoch, samples)
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


def history_of_block(
    train: TrainView,
    user_B: np.ndarray,
    draws: BlockDraws,
    count_N: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(row_BH, weight_BH): positions of each client's train items in its rows, and 1 / how many.

    Every epoch of a round visits all of them, so they are all there; padding has weight 0. With
    `count_N` entries of `train.positives` count more or less, and weights are parts of their sum.
    """
    item_BH, weight_BH = history_of_users(train.positives, user_B, count_N)
    row_BH = np.zeros_like(item_BH)
    place_I = np.full(train.n_items, -1, dtype=np.int64)
    for b, items in enumerate(item_BH):
        touched = draws.item_BR[b, : draws.rows_B[b]]
        place_I[touched] = np.arange(len(touched))
        row_BH[b] = np.where(weight_BH[b] > 0, place_I[items], 0)
        place_I[touched] = -1
    return row_BH, weight_BH.astype(draws.weight_SBW.dtype)


def history_of_users(
    positives: Lists, user_B: np.ndarray, count_N: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(item_BH, weight_BH): each user's own items, and 1 / how many; padding has weight 0. With
    `count_N` entries of `positives` count more or less, and weights are parts of their sum.

    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([3, 4, 5]), 2)
    >>> [part.tolist() for part in history_of_users(lists, np.array([0, 1]))]
    [[[3, 4], [5, 0]], [[0.5, 0.5], [1.0, 0.0]]]
    """
    own = [np.unique(positives[int(user)], return_index=True) for user in user_B]
    longest = max(1, max(len(items) for items, _ in own))
    item_BH = np.zeros((len(own), longest), dtype=np.int64)
    weight_BH = np.zeros((len(own), longest))
    for b, (items, place_H) in enumerate(own):
        item_BH[b, : len(items)] = items
        weight_BH[b, : len(items)] = 1.0 / max(1, len(items))
        if count_N is not None:
            count_H = count_N[positives.start_U1[user_B[b]] + place_H]
            weight_BH[b, : len(items)] = count_H / count_H.sum()
    return item_BH, weight_BH
