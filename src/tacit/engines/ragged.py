"""What clients of custom algorithms look at: padded blocks, ragged batches, rows by history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.compiled import compiled
from tacit.core.capabilities import keeps_history_rows
from tacit.core.custom import ClientData, Crowd, DirectMethod
from tacit.core.types import Init, Params, Task
from tacit.data.batches import draw_block
from tacit.data.sampling import client_keys, draw_client, samples_per_user
from tacit.data.views import Lists, TrainView
from tacit.engines.participation import Participants
from tacit.engines.state import draw_leaf

# Private tables of which a client reads and moves only its history's rows, kept as those rows.
#
# A table per client is gigabytes for thousands of clients; their histories are short. N are the
# entries of all histories, one after another. An item that stands twice in a history has one row,
# the first; the other stays as it began.


def leaves_by_history(method: DirectMethod) -> frozenset[str]:
    """The private leaves of a method that are kept as rows of histories."""
    return method.history_leaves if keeps_history_rows(method) else frozenset()


def shape_in_state(method: DirectMethod, train: TrainView) -> dict[str, tuple[int, ...]]:
    """The private leaves of all clients as a state holds them: (U, ...), or (N, ...) by history."""
    declared = method.private(Task(train.n_users, train.n_items))
    rows = leaves_by_history(method)
    return {
        leaf: (len(train.positives.item_N), *init.shape[1:])
        if leaf in rows
        else (train.n_users, *init.shape)
        for leaf, init in declared.items()
    }


def first_rows(init: Init, first: Tensor, positives: Lists) -> Tensor:
    """The rows of all histories at the beginning; `first` is the table that all begin with.

    >>> lists = Lists(np.array([0, 1, 3]), np.array([2, 0, 2]))
    >>> first = torch.tensor([[5.0], [6.0], [7.0]])
    >>> first_rows(Init((3, 1), "uniform", same=True), first, lists).flatten().tolist()
    [7.0, 5.0, 7.0]
    """
    if not init.same:
        raise ValueError("a leaf that is kept by history must begin the same for all clients")
    return first[torch.from_numpy(positives.item_N)]


def rows_of(positives: Lists, user_B: np.ndarray) -> np.ndarray:
    """Where the entries of some histories stand among all entries.

    >>> rows_of(Lists(np.array([0, 1, 3]), np.array([9, 8, 7])), np.array([1, 0])).tolist()
    [1, 2, 0]
    """
    return Lists(positives.start_U1, np.arange(len(positives.item_N))).take(user_B).item_N


def histories_taken(
    method: DirectMethod, train: TrainView, private: Params, user_B: np.ndarray
) -> Params:
    """The private leaves of all users, but of those kept by history some users' rows alone."""
    rows = leaves_by_history(method)
    if not rows:
        return private
    row_R = torch.from_numpy(rows_of(train.positives, user_B))
    return {leaf: value[row_R] if leaf in rows else value for leaf, value in private.items()}


def taken(method: DirectMethod, train: TrainView, private: Params, user_B: np.ndarray) -> Params:
    """The private leaves of some users as the method declares them, stacked; rows outside of a
    history are zeros, which nobody reads."""
    rows, where = leaves_by_history(method), torch.from_numpy(np.array(user_B, dtype=np.int64))
    return {
        leaf: _tables(value, train, user_B) if leaf in rows else value[where]
        for leaf, value in private.items()
    }


def put(
    method: DirectMethod, train: TrainView, private: Params, user_B: np.ndarray, kept: Params
) -> None:
    """Write what some users keep after a round back to the leaves of all."""
    rows, where = leaves_by_history(method), torch.from_numpy(np.array(user_B, dtype=np.int64))
    for leaf, value in private.items():
        new = kept[leaf].to(value.dtype)
        if leaf not in rows:
            value[where] = new
            continue
        for table_ID, user in zip(new, user_B, strict=True):
            item_K, row_K = _first_times(train.positives, int(user))
            value[torch.from_numpy(row_K)] = table_ID[torch.from_numpy(item_K)]


def _tables(row_ND: Tensor, train: TrainView, user_B: np.ndarray) -> Tensor:
    table_BID = row_ND.new_zeros(len(user_B), train.n_items, *row_ND.shape[1:])
    for table_ID, user in zip(table_BID, user_B, strict=True):
        item_K, row_K = _first_times(train.positives, int(user))
        table_ID[torch.from_numpy(item_K)] = row_ND[torch.from_numpy(row_K)]
    return table_BID


def _first_times(positives: Lists, user: int) -> tuple[np.ndarray, np.ndarray]:
    """The items of a history, and the rows of all histories where each stands first."""
    item_K, place_K = np.unique(positives[user], return_index=True)
    return item_K, positives.start_U1[user] + place_K


# What a block of clients looks at, padded and stacked, for methods that speak for themselves.

# The fields of `ClientData` in their order, each with a leading axis of clients.
Columns = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Params]

WIDEST_BLOCK = 64  # clients; wider blocks pad more and fall out of cache


def histories(
    train: TrainView, user_B: np.ndarray, dtype: torch.dtype, *, place: int | None = None
) -> Columns:
    """Histories without samples, as `score` wants them; `place` is said instead of the users' own.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1, 1]), np.array([2, 0, 1]), n_lists=2)
    >>> train = TrainView(3, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> columns = histories(train, np.array([0, 1]), torch.float32)
    >>> columns[1].tolist(), columns[2].tolist()
    ([[2, 0], [0, 1]], [[1.0, 0.0], [1.0, 1.0]])
    """
    size_B = train.positives.size_U[user_B]
    shape = (len(user_B), max(1, int(size_B.max(initial=0))))
    history_BH = np.zeros(shape, dtype=np.int64)
    for b, user in enumerate(user_B):
        history_BH[b, : size_B[b]] = train.positives[int(user)]
    real_BH = torch.from_numpy(np.arange(shape[1]) < size_B[:, None]).to(dtype)
    nothing = torch.zeros((len(user_B), 0), dtype=dtype)
    said_B = torch.from_numpy(np.array(user_B, dtype=np.int64))
    if place is not None:
        said_B = torch.full_like(said_B, place)
    return said_B, torch.from_numpy(history_BH), real_BH, nothing.long(), nothing, nothing, {}


@dataclass(frozen=True, eq=False)
class RoundData:
    """The data of one round, block by block."""

    method: DirectMethod
    train: TrainView
    seed: int
    round_number: int
    dtype: torch.dtype
    samples_U: np.ndarray | None
    place: int | None = None  # what a client is told of its place, if not the truth

    @classmethod
    def begin(
        cls,
        method: DirectMethod,
        train: TrainView,
        seed: int,
        round_number: int,
        dtype: torch.dtype,
        place: int | None = None,
    ) -> RoundData:
        sampling = method.sampling
        samples_U = None if sampling is None else samples_per_user(train, sampling)
        return cls(method, train, seed, round_number, dtype, samples_U, place)

    def block(self, user_B: np.ndarray) -> Columns:
        """Histories, samples and noise of these clients."""
        user, history, real, item, label, weight, _ = histories(
            self.train, user_B, self.dtype, place=self.place
        )
        if self.method.sampling is not None and self.samples_U is not None:
            draws = draw_block(
                self.train,
                user_B,
                self.samples_U,
                self.method.sampling,
                batch=int(self.samples_U[user_B].max()),  # the whole round is one batch
                epochs=1,
                seed=self.seed,
                round_number=self.round_number,
                dtype=np.float64 if self.dtype == torch.float64 else np.float32,
            )
            item_BN = np.take_along_axis(draws.item_BR, draws.row_TSBW[0, 0], axis=1)
            item = torch.from_numpy(item_BN)
            label = torch.from_numpy(draws.label_TSBW[0, 0])
            weight = torch.from_numpy(draws.weight_SBW[0])
        return user, history, real, item, label, weight, self._noise(user_B)

    def noise_stream(self, leaf: str) -> int:
        """The stream of one leaf of this round's noise."""
        return streams.name_of(f"{self.round_number}:{leaf}")

    def _noise(self, user_B: np.ndarray) -> Params:
        declared = self.method.noise(Task(self.train.n_users, self.train.n_items))
        return {
            leaf: draw_leaf(
                init,
                self.seed,
                streams.CLIENT_NOISE,
                self.noise_stream(leaf),
                self.train.user_key_U[user_B],
                self.dtype,
            )
            for leaf, init in declared.items()
        }


def one_client(columns: Columns) -> ClientData:
    """The data of a block that is a single client, without the axis of clients."""
    user, history, real, item, label, weight, noise = columns
    own = {leaf: value[0] for leaf, value in noise.items()}
    return ClientData(user[0], history[0], real[0], item[0], label[0], weight[0], own)


# The data of a round for a whole crowd: histories, samples and noise, nothing padded.


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
