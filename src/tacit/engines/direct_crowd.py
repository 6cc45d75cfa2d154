"""The data of a round for a whole crowd: histories, samples and noise, nothing padded."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.compiled import compiled
from tacit.core.crowd import Crowd
from tacit.core.types import Task
from tacit.data.drawing import client_keys, draw_client
from tacit.data.views import Lists
from tacit.engines.direct_data import RoundData
from tacit.engines.history_rows import rows_of
from tacit.engines.leaves import draw_leaf
from tacit.engines.participation import Participants


def crowd_of(data: RoundData, participants: Participants) -> Crowd:
    """All participants of a round; each draws what it would draw alone."""
    train = data.train
    declared = data.method.noise(Task(train.n_users, train.n_items))
    user_P = np.ascontiguousarray(participants.user_P, dtype=np.int64)

    def noise(leaf: str, user_B: np.ndarray) -> Tensor:
        stream, key_B = data.noise_stream(leaf), train.user_key_U[user_B]
        purpose = streams.CLIENT_NOISE
        return draw_leaf(declared[leaf], data.seed, purpose, stream, key_B, data.dtype)

    def noise_at(leaf: str, user_R: np.ndarray, entry_R: np.ndarray) -> Tensor:
        init = declared[leaf]
        if init.law != "uniform":
            raise ValueError(f"single entries of {leaf} cannot be drawn: its law is {init.law}")
        stream, key_R = np.uint64(data.noise_stream(leaf)), train.user_key_U[user_R]
        unit_R = _units(data.seed, streams.CLIENT_NOISE, stream, key_R, entry_R)
        return torch.from_numpy((2.0 * unit_R - 1.0) * init.scale).to(data.dtype)

    samples, label_N = _samples(data, user_P)
    return Crowd(
        user_P,
        np.asarray(participants.reports_P, dtype=bool),
        train.positives.take(user_P),
        rows_of(train.positives, user_P),
        samples,
        label_N,
        noise,
        noise_at,
    )


def _samples(data: RoundData, user_P: np.ndarray) -> tuple[Lists, np.ndarray]:
    train, sampling = data.train, data.method.sampling
    if sampling is None or data.samples_U is None:
        return Lists.empty(len(user_P)), np.zeros(0, dtype=np.uint8)
    start_P1 = np.zeros(len(user_P) + 1, dtype=np.int64)
    np.cumsum(data.samples_U[user_P], out=start_P1[1:])
    item_N = np.empty(start_P1[-1], dtype=np.int64)
    label_N = np.empty(start_P1[-1], dtype=np.uint8)
    _draw(
        data.seed,
        data.round_number,
        sampling.redraw_code,
        user_P,
        train.user_key_U,
        train.positives.start_U1,
        train.positives.item_N,
        train.hidden_from_negatives.start_U1,
        train.hidden_from_negatives.item_N,
        train.n_items,
        sampling.negatives,
        start_P1,
        item_N,
        label_N,
    )
    return Lists(start_P1, item_N), label_N


@compiled(error_model="numpy")
def _draw(  # type: ignore[no-untyped-def]
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
    start,
    item_N,
    label_N,
):
    blocked = np.zeros(n_items, np.uint8)
    for p in range(len(users)):
        user = users[p]
        negative_key, shuffle_key = client_keys(seed, round_number, 0, redraw, user_keys[user])
        draw_client(
            negative_key,
            shuffle_key,
            positive_item[positive_start[user] : positive_start[user + 1]],
            hidden_item[hidden_start[user] : hidden_start[user + 1]],
            n_items,
            n_negatives,
            item_N[start[p] : start[p + 1]],
            label_N[start[p] : start[p + 1]],
            blocked,
        )


@compiled(error_model="numpy")
def _units(seed, purpose, stream, keys, entries):  # type: ignore[no-untyped-def]
    """Single numbers in [0, 1) of streams: a pure function of key and counter."""
    out = np.empty(len(entries), np.float64)
    for r in range(len(entries)):
        out[r] = streams.draw_unit(streams.stream_key(seed, purpose, stream, keys[r]), entries[r])
    return out
