"""All participants of a round as one ragged batch: histories, samples and noise, nothing padded."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.compiled import compiled
from tacit.core.ragged import RaggedBatch
from tacit.core.types import draw_parameter
from tacit.data.batches import Drawing, Samples, draw_epoch
from tacit.data.views import Lists, TrainView
from tacit.engines.clients import ClientDraws, rows_of
from tacit.engines.participation import Participants


def ragged_batch(data: ClientDraws, participants: Participants) -> RaggedBatch:
    """All participants of a round; each draws what it would draw alone."""
    train = data.train
    declared = data.wanted.noise
    user_P = np.ascontiguousarray(participants.user_P, dtype=np.int64)

    def noise(name: str, user_B: np.ndarray) -> Tensor:
        stream, key_B = data.noise_stream(name), train.user_key_U[user_B]
        purpose = streams.CLIENT_NOISE
        return draw_parameter(declared[name], data.seed, purpose, stream, key_B, data.dtype)

    def noise_at(name: str, user_R: np.ndarray, entry_R: np.ndarray) -> Tensor:
        init = declared[name]
        if init.distribution != "uniform":
            raise ValueError(
                f"single entries of {name} cannot be drawn: its distribution is {init.distribution}"
            )
        stream, key_R = np.uint64(data.noise_stream(name)), train.user_key_U[user_R]
        unit_R = _units(data.seed, streams.CLIENT_NOISE, stream, key_R, entry_R)
        return torch.from_numpy((2.0 * unit_R - 1.0) * init.scale).to(data.dtype)

    samples, label_N = _samples(data, user_P)
    return RaggedBatch(
        user_P,
        np.asarray(participants.reports_P, dtype=bool),
        *_histories(train, user_P, data.wanted.order),
        samples,
        label_N,
        noise,
        noise_at,
    )


def _histories(train: TrainView, user_P: np.ndarray, order: bool) -> tuple[Lists, np.ndarray]:
    """Histories and where their entries stand among all; from the earliest on if that is asked."""
    if order:
        return train.histories.items.take(user_P), train.rows_in_time(user_P)
    return train.positives.take(user_P), rows_of(train.positives, user_P)


def _samples(data: ClientDraws, user_P: np.ndarray) -> tuple[Lists, np.ndarray]:
    train, sampling = data.train, data.wanted.sampling
    if sampling is None or data.samples_U is None:
        return Lists.empty(len(user_P)), np.zeros(0, dtype=np.uint8)
    start_P1 = np.zeros(len(user_P) + 1, dtype=np.int64)
    np.cumsum(data.samples_U[user_P], out=start_P1[1:])
    item_N = np.empty(start_P1[-1], dtype=np.int64)
    label_N = np.empty(start_P1[-1], dtype=np.uint8)
    drawing = Drawing.of(train, sampling, data.seed, data.round_number)
    _draw(drawing, user_P, start_P1, item_N, label_N)
    return Lists(start_P1, item_N), label_N


@compiled(error_model="numpy")
def _draw(drawing, users, start, item_N, label_N):  # type: ignore[no-untyped-def]
    """The samples of some clients, client after client."""
    blocked = np.zeros(drawing.n_items, np.uint8)
    for p in range(len(users)):
        own = slice(start[p], start[p + 1])
        draw_epoch(drawing, users[p], 0, Samples(item_N[own], label_N[own], blocked))


@compiled(error_model="numpy")
def _units(seed, purpose, stream, keys, entries):  # type: ignore[no-untyped-def]
    """Single numbers in [0, 1) of streams: a pure function of key and counter."""
    out = np.empty(len(entries), np.float64)
    for r in range(len(entries)):
        out[r] = streams.draw_unit(streams.stream_key(seed, purpose, stream, keys[r]), entries[r])
    return out
