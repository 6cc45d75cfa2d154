"""What clients look at and keep: draws of an exchange, histories, and their part of a state.

A block of clients is padded and stacked; a single client is a block of one, without padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.core.algorithm import (
    Algorithm,
    ClientData,
    ClientState,
    Draws,
    Exchange,
    Sample,
    Update,
)
from tacit.core.types import ITEMS, Params, UploadDraws, draw_parameter
from tacit.data.batches import BlockDraws, counted, draw_block, history_of_block
from tacit.data.sampling import samples_per_user
from tacit.data.views import Lists, TrainView
from tacit.engines.state import State

# The fields of `ClientData` that are stacked, in their order, with a leading axis of clients.
Columns = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Params, Tensor]

WIDEST_BLOCK = 64  # clients; wider blocks pad more and fall out of cache
NOBODY = -1  # the index of somebody who joined after training


def histories(
    train: TrainView,
    user_B: np.ndarray,
    dtype: torch.dtype,
    *,
    newcomer: bool = False,
    order: bool = False,
) -> Columns:
    """Histories without samples, as `score` wants them; a newcomer is told no index. With `order`
    each item comes with its position in time.

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
    if newcomer:
        said_B = torch.full_like(said_B, NOBODY)
    history = torch.from_numpy(history_BH)
    when = _order(train, user_B, history) if order else nothing.long()
    return said_B, history, real_BH, nothing.long(), nothing, nothing, {}, when


def _order(train: TrainView, user_B: np.ndarray, history_BH: Tensor) -> Tensor:
    """The position in time of every entry of some histories; padding has 0."""
    order_BH, lists = torch.zeros_like(history_BH), Lists(train.positives.start_U1, train.order_N)
    for b, user in enumerate(user_B):
        own_H = lists[int(user)]
        order_BH[b, : len(own_H)] = torch.from_numpy(own_H)
    return order_BH


@dataclass(frozen=True, eq=False)
class ClientDraws:
    """What clients draw in one exchange of a round, in blocks or one by one.

    A newcomer is told no index; what it draws depends on its key, as for everybody.
    """

    wanted: Draws
    train: TrainView
    seed: int
    round_number: int
    dtype: torch.dtype
    samples_U: np.ndarray | None
    newcomer: bool = False

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        exchange: Exchange,
        train: TrainView,
        seed: int,
        round_number: int,
        dtype: torch.dtype,
        newcomer: bool = False,
    ) -> ClientDraws:
        wanted = algorithm.draws(exchange)
        samples_U = None if wanted.sampling is None else samples_per_user(train, wanted.sampling)
        return cls(wanted, train, seed, round_number, dtype, samples_U, newcomer)

    def client(self, user: int) -> ClientData:
        """What one client looks at, without padding."""
        user_1 = np.array([user])
        place, history, real, item, label, weight, noise, order = self._without_samples(user_1)
        draws = self._draws(user_1)
        rows = None
        if draws is not None:
            item, label, weight = (column[0] for column in _first_batch(draws))
            if self.wanted.history_rows:
                row_1H, weight_1H = history_of_block(self.train, user_1, draws, self._count_N)
                rows = torch.from_numpy(row_1H[0]), torch.from_numpy(weight_1H[0])
        own = {name: value[0] for name, value in noise.items()}
        known = (place[0], history[0], real[0], item, label, weight)
        upload = self.upload_draws(user_1)[0]
        return ClientData(*known, own, order[0], draws, rows, upload)

    def block(self, user_B: np.ndarray) -> Columns:
        """Histories, samples and noise of these clients, for algorithms that play one batch."""
        place, history, real, item, label, weight, noise, order = self._without_samples(user_B)
        draws = self._draws(user_B)
        if draws is not None:
            item, label, weight = _first_batch(draws)
        return place, history, real, item, label, weight, noise, order

    def upload_draws(self, user_B: np.ndarray) -> list[UploadDraws]:
        """What channels draw for the uploads of these clients."""
        return upload_draws(self.train, user_B, self.seed, self.round_number)

    def noise_stream(self, name: str) -> int:
        """The stream of one parameter of this round's noise."""
        return streams.name_of(f"{self.round_number}:{name}")

    def _without_samples(self, user_B: np.ndarray) -> Columns:
        columns = histories(
            self.train, user_B, self.dtype, newcomer=self.newcomer, order=self.wanted.order
        )
        return *columns[:6], self._noise(user_B), columns[7]

    def _draws(self, user_B: np.ndarray) -> BlockDraws | None:
        if self.wanted.sampling is None or self.samples_U is None or not self.wanted.epochs:
            return None
        draws = draw_block(
            self.train,
            user_B,
            self.samples_U,
            self.wanted.sampling,
            batch=self.wanted.batch or int(self.samples_U[user_B].max()),
            epochs=self.wanted.epochs,
            seed=self.seed,
            round_number=self.round_number,
            dtype=np.float64 if self.dtype == torch.float64 else np.float32,
            all_rows=self.wanted.all_rows,
        )
        return counted(draws, self.train.positives, user_B, self._count_N)

    @property
    def _count_N(self) -> np.ndarray | None:
        recency = self.wanted.recency
        return None if recency is None else recency.of_positives(self.train)

    def _noise(self, user_B: np.ndarray) -> Params:
        return {
            name: draw_parameter(
                init,
                self.seed,
                streams.CLIENT_NOISE,
                self.noise_stream(name),
                self.train.user_key_U[user_B],
                self.dtype,
            )
            for name, init in self.wanted.noise.items()
        }


def upload_draws(
    train: TrainView, user_B: np.ndarray, seed: int, round_number: int
) -> list[UploadDraws]:
    """What channels draw for the uploads of some clients in a round."""
    return [UploadDraws(seed, round_number, int(key)) for key in train.user_key_U[user_B]]


def _first_batch(draws: BlockDraws) -> tuple[Tensor, Tensor, Tensor]:
    """Items, labels and weights of the first batch of the first epoch."""
    item_BN = np.take_along_axis(draws.item_BR, draws.row_TSBW[0, 0], axis=1)
    label_BN, weight_BN = draws.label_TSBW[0, 0], draws.weight_SBW[0]
    return torch.from_numpy(item_BN), torch.from_numpy(label_BN), torch.from_numpy(weight_BN)


def one_client(columns: Columns) -> ClientData:
    """The data of a block that is a single client, without the axis of clients."""
    user, history, real, item, label, weight, noise, order = columns
    own = {name: value[0] for name, value in noise.items()}
    return ClientData(user[0], history[0], real[0], item[0], label[0], weight[0], own, order[0])


# What one client keeps, in the state of all


def client_state(algorithm: Algorithm, train: TrainView, state: State, user: int) -> ClientState:
    """What one client keeps, copied: nothing that a part does with it reaches another client."""
    rows = algorithm.history_parameters
    return ClientState(
        {
            name: _tables(value, train, np.array([user]))[0]
            if name in rows
            else value[user].clone()
            for name, value in state.private.items()
        },
        {name: value[user] for name, value in state.optimizer.items()},
        *_tuned(state, user),
    )


def _tuned(state: State, user: int) -> tuple[Tensor | None, Tensor | None]:
    """The items whose rows a client tuned for itself, and those rows."""
    if state.tuned is None:
        return None, None
    item_R, row_RD = state.tuned.of(user)
    return torch.from_numpy(item_R.astype(np.int64)), row_RD.clone()


def score_client(algorithm: Algorithm, train: TrainView, state: State, user: int) -> Tensor:
    """One client's logits by the contract alone: what it received, what it keeps, its history."""
    order = algorithm.reads_order
    data = one_client(histories(train, np.array([user]), _dtype(state), order=order))
    shared = state.shared
    if state.broadcast is not None and state.fresh_U[user]:  # it ranks with what it started from
        shared = {**shared, ITEMS: state.broadcast}
    received = algorithm.broadcast(shared, data.user)
    return algorithm.score(received, client_state(algorithm, train, state, user), data)


def _dtype(state: State) -> torch.dtype:
    return next((value.dtype for value in state.shared.values()), torch.float32)


def sample_of(algorithm: Algorithm, train: TrainView, state: State, seed: int) -> Sample:
    """What one client really receives and sends in its first exchange."""
    user = int(np.flatnonzero(train.positives.size_U > 0)[0])
    draws = ClientDraws.of(algorithm, Exchange(), train, seed, 1, _dtype(state))
    data, client = draws.client(user), client_state(algorithm, train, state, user)
    received = algorithm.broadcast(state.shared, data.user)
    update = algorithm.update(Exchange(), received, client, data, 1)
    return Sample(received, client, update, len(train.positives.item_N))


def write_update(
    algorithm: Algorithm, train: TrainView, state: State, user: int, update: Update
) -> None:
    """Write what one client keeps after an exchange."""
    kept = {name: value[None] for name, value in update.private.items()}
    put(algorithm, train, state.private, np.array([user]), kept)
    if update.optimizer:
        for name in state.optimizer:
            state.optimizer[name][user] = update.optimizer[name]
    item_R = update.upload.item_R if update.item_R is None else update.item_R
    for name, row_RD in update.rows.items():
        if name in state.private:
            state.private[name][user][item_R] = row_RD
    if state.tuned is not None and ITEMS in update.rows:
        state.tuned.write(user, item_R.numpy(), update.rows[ITEMS])


# Private tables of which a client reads and moves only its history's rows, kept as those rows.
#
# A table per client is gigabytes for thousands of clients; their histories are short. N are the
# entries of all histories, one after another. An item that stands twice in a history has one row,
# the first; the other stays as it began.


def shape_in_state(algorithm: Algorithm, train: TrainView) -> dict[str, tuple[int, ...]]:
    """The private parameters of all clients as a state holds them: (U, ...), or (N, ...) by
    history."""
    declared, rows = algorithm.private, algorithm.history_parameters
    return {
        name: (len(train.positives.item_N), *init.shape[1:])
        if name in rows
        else (train.n_users, *init.shape)
        for name, init in declared.items()
    }


def rows_of(positives: Lists, user_B: np.ndarray) -> np.ndarray:
    """Where the entries of some histories stand among all entries.

    >>> rows_of(Lists(np.array([0, 1, 3]), np.array([9, 8, 7])), np.array([1, 0])).tolist()
    [1, 2, 0]
    """
    return Lists(positives.start_U1, np.arange(len(positives.item_N))).take(user_B).item_N


def histories_taken(
    algorithm: Algorithm, train: TrainView, private: Params, user_B: np.ndarray
) -> Params:
    """The private parameters of all users, but of those kept by history some users' rows alone."""
    rows = algorithm.history_parameters
    if not rows:
        return private
    row_R = torch.from_numpy(rows_of(train.positives, user_B))
    return {name: value[row_R] if name in rows else value for name, value in private.items()}


def taken(algorithm: Algorithm, train: TrainView, private: Params, user_B: np.ndarray) -> Params:
    """The private parameters of some users as they are declared, stacked; rows outside of a
    history are zeros, which nobody reads."""
    rows, where = algorithm.history_parameters, torch.from_numpy(np.array(user_B, dtype=np.int64))
    return {
        name: _tables(value, train, user_B) if name in rows else value[where]
        for name, value in private.items()
    }


def put(
    algorithm: Algorithm, train: TrainView, private: Params, user_B: np.ndarray, kept: Params
) -> None:
    """Write what some users keep after a round back to the parameters of all."""
    rows, where = algorithm.history_parameters, torch.from_numpy(np.array(user_B, dtype=np.int64))
    for name, value in private.items():
        if name not in kept:
            continue
        new = kept[name].to(value.dtype)
        if name not in rows:
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
