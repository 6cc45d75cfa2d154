"""The state of a federation between two rounds: how it begins, and the rows that clients tuned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch

from tacit import streams
from tacit.core.capabilities import stacked_slots
from tacit.core.compose import Algorithm
from tacit.core.parts import GradientRule
from tacit.core.types import ITEMS, Init, Params
from tacit.data.sampling import REDRAW_CODES, Sampling, samples_per_user
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.memory import available_bytes

# Values of leaves, drawn by the law that declares them and keyed by whose they are.


def draw_leaf(
    init: Init, seed: int, purpose: int, stream: int, name_U: np.ndarray, dtype: torch.dtype
) -> torch.Tensor:
    """One value for each name, stacked: (U, ...). `stream` tells leaves (and rounds) apart.

    With `same=True` the value belongs to nobody and is the same for every name.

    >>> two = draw_leaf(Init((3,), "normal"), 0, 1, 5, np.array([7, 9], np.uint64), torch.float64)
    >>> one = draw_leaf(Init((3,), "normal"), 0, 1, 5, np.array([9], np.uint64), torch.float64)
    >>> bool((two[1] == one[0]).all())
    True
    """
    shape = (len(name_U), *init.shape)
    if init.law == "zeros":
        return torch.zeros(shape, dtype=dtype)
    drawn_U = np.zeros(1, dtype=np.uint64) if init.same else name_U
    if init.law == "normal":
        value = streams.normals(seed, purpose, stream, drawn_U, init.count) * init.scale
    else:
        unit = streams.uniforms(seed, purpose, stream, drawn_U, init.count)
        value = (2.0 * unit - 1.0) * init.scale
    drawn = torch.from_numpy(value.reshape(len(drawn_U), *init.shape)).to(dtype)
    return drawn.expand(shape).clone() if init.same else drawn


# The rows that clients last tuned: what a replace-every-round method must keep, and no more.


@dataclass(eq=False)
class TunedRows:
    """User u's rows are `value_CD[start_U1[u] : start_U1[u] + count_U[u]]`, of items `item_C`.

    Each user has room for as many rows as it can touch in one round, so a round writes in place.
    """

    start_U1: np.ndarray
    count_U: np.ndarray
    item_C: np.ndarray  # int32
    value_CD: torch.Tensor

    @classmethod
    def allocate(
        cls,
        train: TrainView,
        sampling: Sampling,
        epochs: int,
        dim: int,
        dtype: torch.dtype,
        rows: Literal["touched", "all"] = "touched",
    ) -> TunedRows:
        room_U = cls.room(train, sampling, epochs, rows)
        start_U1 = np.concatenate([[0], np.cumsum(room_U)]).astype(np.int64)
        total = int(start_U1[-1])
        return cls(
            start_U1,
            np.zeros(train.n_users, dtype=np.int64),
            np.zeros(total, dtype=np.int32),
            torch.zeros((total, dim), dtype=dtype),
        )

    @staticmethod
    def room(
        train: TrainView,
        sampling: Sampling,
        epochs: int,
        rows: Literal["touched", "all"] = "touched",
    ) -> np.ndarray:
        """How many rows each user can touch in one round, or all where a rule moves all."""
        if rows == "all":
            return np.full(train.n_users, train.n_items)
        draws = epochs if sampling.redraw_code == REDRAW_CODES["epoch"] else 1
        return np.minimum(samples_per_user(train, sampling) * draws, train.n_items)

    def copy(self) -> TunedRows:
        return TunedRows(
            self.start_U1, self.count_U.copy(), self.item_C.copy(), self.value_CD.clone()
        )

    def of(self, user: int) -> tuple[np.ndarray, torch.Tensor]:
        """The items and rows that one user last tuned."""
        begin = int(self.start_U1[user])
        end = begin + int(self.count_U[user])
        return self.item_C[begin:end], self.value_CD[begin:end]

    def write(self, user: int, item_R: np.ndarray, value_RD: torch.Tensor) -> None:
        begin = int(self.start_U1[user])
        self.item_C[begin : begin + len(item_R)] = item_R
        self.value_CD[begin : begin + len(item_R)] = value_RD
        self.count_U[user] = len(item_R)


def kernel_arguments(
    tuned: TunedRows | None, kind: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
    """Tuned rows as kernels take them: starts, counts, items, values, and whether there are any.

    >>> kernel_arguments(None, np.dtype(np.float32))[-1]
    False
    """
    if tuned is None:
        none = np.zeros(1, dtype=np.int64)
        return none, none, np.zeros(1, np.int32), np.zeros((1, 1), kind), False
    return tuned.start_U1, tuned.count_U, tuned.item_C, tuned.value_CD.numpy(), True


# The state of a federation between two rounds, and how it begins.


@dataclass(eq=False)
class State:
    """Server and clients after `round_number` rounds.

    The one mutable thing in the library: engines write a round's result in place, because the
    tables of a whole population do not fit in memory twice.
    """

    shared: Params
    private: Params  # stacked over users: (U, ...); see `history_rows.py` for (N, ...)
    round_number: int = 0
    # For clients that rank with their tuned copy: the table that the last round's participants
    # started from, the rows each client last tuned, and who took part in the last round.
    broadcast: torch.Tensor | None = None
    tuned: TunedRows | None = None
    fresh_U: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    moments: Params = field(default_factory=dict)  # persistent optimiser state, stacked over users
    server: Params = field(default_factory=dict)  # the server's own optimiser state: "leaf/slot"
    loss: float = float("nan")  # mean training loss of the last round

    @property
    def on_host(self) -> bool:
        """Whether no leaf is on a GPU."""
        return not any(leaf.is_cuda for leaf in (*self.shared.values(), *self.private.values()))

    def on(self, device: str) -> State:
        """The same state with its leaves on a device; those that are there are not copied. Rows
        that clients tuned for themselves stay in the host's memory, where single users read them.
        """
        return replace(
            self,
            shared={name: leaf.to(device) for name, leaf in self.shared.items()},
            private={name: leaf.to(device) for name, leaf in self.private.items()},
            broadcast=None if self.broadcast is None else self.broadcast.to(device),
            moments={name: leaf.to(device) for name, leaf in self.moments.items()},
            server={name: leaf.to(device) for name, leaf in self.server.items()},
        )

    def copy(self) -> State:
        return State(
            {name: leaf.clone() for name, leaf in self.shared.items()},
            {name: leaf.clone() for name, leaf in self.private.items()},
            self.round_number,
            None if self.broadcast is None else self.broadcast.clone(),
            None if self.tuned is None else self.tuned.copy(),
            self.fresh_U.copy(),
            {name: leaf.clone() for name, leaf in self.moments.items()},
            {name: leaf.clone() for name, leaf in self.server.items()},
            self.loss,
        )


def require_clients_memory(
    algorithm: Algorithm, train: TrainView, dtype: torch.dtype, copies: int = 1
) -> None:
    """Refuse a population whose private leaves and tuned rows do not fit, and say what would.

    A run holds two copies: the state of the last round, and that of the selected one.
    """
    width = torch.empty(0, dtype=dtype).element_size()
    method = algorithm.method
    floats = sum(init.count for init in algorithm.private.values()) * train.n_users
    if method.sync.scores_with == "tuned":
        epochs, rows = method.local.epochs, method.sync.rows
        room_U = TunedRows.room(train, method.sampling, epochs, rows)
        floats += int(room_U.sum()) * algorithm.table_width
    needed, free = copies * floats * width, available_bytes()
    if free is None or needed <= free:
        return
    share = free / needed
    raise TacitError(
        f"What {train.n_users} clients keep ({method.backbone.dim} wide) needs "
        f"{needed / 1e9:.1f} GB of memory but only {free / 1e9:.1f} GB are free; about "
        f"{int(share * train.n_users)} users (--min-user) or backbone.dim="
        f"{int(share * method.backbone.dim)} would fit, or a method without a personal table."
    )


def initial_state(
    algorithm: Algorithm, train: TrainView, seed: int, dtype: torch.dtype = torch.float32
) -> State:
    """Every leaf at its first value; a user's values depend on the user's id, not on its place."""
    require_clients_memory(algorithm, train, dtype)
    nobody = np.zeros(1, dtype=np.uint64)
    shared = {
        name: first_values(init, name, seed, nobody, dtype)[0]
        for name, init in algorithm.shared.items()
    }
    private: Params = {}
    for name, init in algorithm.private.items():
        if init.same:  # drawn once: a table for each user is large
            first = first_values(init, name, seed, nobody, dtype)[0]
            private[name] = first.expand(train.n_users, *init.shape).clone()
        else:
            private[name] = first_values(init, name, seed, train.user_key_U, dtype)
    state = State(shared, private, fresh_U=np.zeros(train.n_users, dtype=bool))
    method = algorithm.method
    if method.sync.scores_with == "tuned":
        state.broadcast = shared[ITEMS].clone()
        state.tuned = TunedRows.allocate(
            train,
            method.sampling,
            method.local.epochs,
            algorithm.table_width,
            dtype,
            method.sync.rows,
        )
    if method.local.model.lifetime == "persistent":
        state.moments = _initial_moments(algorithm, state, train.n_users)
    if isinstance(method.server, GradientRule):
        for leaf in sorted(algorithm.held):
            optimiser = method.server.optimiser(leaf in algorithm.row_leaves)
            for slot, start in optimiser.init(shared[leaf], 0).items():
                state.server[f"{leaf}/{slot}"] = start
    return state


def first_values(
    init: Init, leaf: str, seed: int, name_U: np.ndarray, dtype: torch.dtype
) -> torch.Tensor:
    """The first value of a leaf for each name, stacked: a pure function of the seed.

    >>> first_values(Init((2,)), "user", 0, np.zeros(1, dtype=np.uint64), torch.float32).tolist()
    [[0.0, 0.0]]
    """
    stream = streams.name_of(init.like or leaf)
    return draw_leaf(init, seed, streams.INIT, stream, name_U, dtype)


def _initial_moments(algorithm: Algorithm, state: State, n_users: int) -> Params:
    moments: Params = {}
    for leaf in algorithm.model_leaves:
        value = (
            state.private[leaf]
            if leaf in state.private
            else state.shared[leaf].expand(n_users, *state.shared[leaf].shape)
        )
        for slot, start in stacked_slots(algorithm.optimiser(leaf), value).items():
            moments[f"{leaf}/{slot}"] = start.clone()
    return moments
