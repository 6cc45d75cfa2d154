"""The state of a federation between two rounds, and how it begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from tacit import streams
from tacit.core.algorithm import Algorithm
from tacit.core.capabilities import stacked_optimizer_state
from tacit.core.central import Fitted
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS, Initializer, Params, draw_parameter
from tacit.data.views import Lists, TrainView
from tacit.engines.tuned import TunedRows, room_of
from tacit.errors import TacitError, argument
from tacit.memory import available_bytes

# The state of a federation between two rounds, and how it begins.


@dataclass(eq=False)
class State:
    """Server and clients after `round_number` rounds.

    The one mutable thing in the library: engines write a round's result in place, because the
    tables of a whole population do not fit in memory twice.
    """

    shared: Params
    private: Params  # stacked over users: (U, ...); see `clients.py` for (N, ...)
    round_number: int = 0
    # For clients that rank with their tuned copy: the table that the last round's participants
    # started from, the rows each client last tuned, and who took part in the last round.
    broadcast: torch.Tensor | None = None
    tuned: TunedRows | None = None
    fresh_U: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    optimizer: Params = field(
        default_factory=dict
    )  # persistent optimiser state, stacked over users
    server: Params = field(
        default_factory=dict
    )  # the server's own optimiser state: "parameter/state"
    loss: float = float("nan")  # mean training loss of the last round
    fitted: Fitted | None = None  # what a central method made of all histories

    @property
    def on_host(self) -> bool:
        """Whether no parameter is on a GPU."""
        return not any(
            parameter.is_cuda for parameter in (*self.shared.values(), *self.private.values())
        )

    def on(self, device: str) -> State:
        """The same state with its parameters on a device; those that are there are not copied. Rows
        that clients tuned for themselves stay in the host's memory, where single users read them.
        """
        return replace(
            self,
            shared={name: parameter.to(device) for name, parameter in self.shared.items()},
            private={name: parameter.to(device) for name, parameter in self.private.items()},
            broadcast=None if self.broadcast is None else self.broadcast.to(device),
            optimizer={name: parameter.to(device) for name, parameter in self.optimizer.items()},
            server={name: parameter.to(device) for name, parameter in self.server.items()},
        )

    def copy(self) -> State:
        return State(
            {name: parameter.clone() for name, parameter in self.shared.items()},
            {name: parameter.clone() for name, parameter in self.private.items()},
            self.round_number,
            None if self.broadcast is None else self.broadcast.clone(),
            None if self.tuned is None else self.tuned.copy(),
            self.fresh_U.copy(),
            {name: parameter.clone() for name, parameter in self.optimizer.items()},
            {name: parameter.clone() for name, parameter in self.server.items()},
            self.loss,
            self.fitted,
        )


def require_clients_memory(
    algorithm: ComposedAlgorithm,
    train: TrainView,
    dtype: torch.dtype,
    copies: int = 1,
    tuning: float = 0.0,
) -> None:
    """Refuse a population whose private parameters and tuned rows do not fit, and say what would.

    A run holds two copies: the state of the last round, and that of the selected one. `tuning` is
    the share of the clients whose tuned rows will lie in memory.
    """
    width = torch.empty(0, dtype=dtype).element_size()
    method = algorithm.method
    floats = sum(init.count for init in algorithm.private.values()) * train.n_users
    on_disk = ""
    if method.sync.scores_with == "tuned" and tuning > 0:
        room_U = room_of(train, method.sampling, method.local.epochs, method.sync.rows)
        floats += int(tuning * room_U.sum()) * algorithm.table_width
        on_disk = f", or {argument('private_on_disk', True)}"
    needed, free = copies * floats * width, available_bytes()
    if free is None or needed <= free:
        return
    share = free / needed
    raise TacitError(
        f"What {train.n_users} clients keep ({method.backbone.dim} wide) needs "
        f"{needed / 1e9:.1f} GB of memory but only {free / 1e9:.1f} GB are free; about "
        f"{int(share * train.n_users)} users ({argument('min_user')}) or backbone.dim="
        f"{int(share * method.backbone.dim)} would fit, or a method without a "
        f"personal table{on_disk}."
    )


def initial_state(
    algorithm: Algorithm, train: TrainView, seed: int, dtype: torch.dtype = torch.float32
) -> State:
    """Every parameter at its first value; a user's depend on the user's id, not on its index."""
    composed = algorithm.composition
    if composed is not None:
        require_clients_memory(composed, train, dtype)
    nobody = np.zeros(1, dtype=np.uint64)
    shared = {
        name: first_values(init, name, seed, nobody, dtype)[0]
        for name, init in algorithm.shared.items()
    }
    private: Params = {}
    for name, init in algorithm.private.items():
        if name in algorithm.history_parameters:
            first = first_values(init, name, seed, nobody, dtype)[0]
            private[name] = first_history_rows(init, first, train.positives)
        elif init.same:  # drawn once: a table for each user is large
            first = first_values(init, name, seed, nobody, dtype)[0]
            private[name] = first.expand(train.n_users, *init.shape).clone()
        else:
            private[name] = first_values(init, name, seed, train.user_key_U, dtype)
    state = State(shared, private, fresh_U=np.zeros(train.n_users, dtype=bool))
    if composed is not None:
        _begin_composed(composed, train, state, dtype)
    return state


def _begin_composed(
    algorithm: ComposedAlgorithm, train: TrainView, state: State, dtype: torch.dtype
) -> None:
    """Rows that clients tune for themselves, and optimizer state that lasts."""
    method, shared = algorithm.method, state.shared
    if method.sync.scores_with == "tuned":
        state.broadcast = shared[ITEMS].clone()
        room_U = room_of(train, method.sampling, method.local.epochs, method.sync.rows)
        state.tuned = TunedRows.of_nobody(room_U, algorithm.table_width, dtype)
    if method.local.model.lifetime == "persistent":
        state.optimizer = _initial_optimizer_state(algorithm, state, train.n_users)
    gradients = method.server.gradients
    for name in sorted(algorithm.gradients_only) if gradients is not None else ():
        assert gradients is not None
        optimiser = gradients.optimiser(name in algorithm.row_parameters)
        for key, start in optimiser.init(shared[name], 0).items():
            state.server[f"{name}/{key}"] = start


def first_history_rows(init: Initializer, first: torch.Tensor, positives: Lists) -> torch.Tensor:
    """The rows of all histories at the beginning; `first` is the table that all begin with.

    >>> lists = Lists(np.array([0, 1, 3]), np.array([2, 0, 2]))
    >>> first = torch.tensor([[5.0], [6.0], [7.0]])
    >>> same = Initializer((3, 1), "uniform", same=True)
    >>> first_history_rows(same, first, lists).flatten().tolist()
    [7.0, 5.0, 7.0]
    """
    if not init.same:
        raise ValueError("a parameter that is kept by history must begin the same for all clients")
    return first[torch.from_numpy(positives.item_N)]


def first_values(
    init: Initializer, name: str, seed: int, name_U: np.ndarray, dtype: torch.dtype
) -> torch.Tensor:
    """The first value of a parameter for each name, stacked: a pure function of the seed.

    >>> nobody = np.zeros(1, dtype=np.uint64)
    >>> first_values(Initializer((2,)), "user", 0, nobody, torch.float32).tolist()
    [[0.0, 0.0]]
    """
    stream = streams.name_of(init.like or name)
    return draw_parameter(init, seed, streams.INIT, stream, name_U, dtype)


def _initial_optimizer_state(algorithm: ComposedAlgorithm, state: State, n_users: int) -> Params:
    optimizer: Params = {}
    for name in algorithm.model_parameters:
        value = (
            state.private[name]
            if name in state.private
            else state.shared[name].expand(n_users, *state.shared[name].shape)
        )
        for key, start in stacked_optimizer_state(algorithm.optimiser(name), value).items():
            optimizer[f"{name}/{key}"] = start.clone()
    return optimizer
