"""What a server sees of some clients: one upload, or the sum over a cohort, with its noise.

Uploads come from the algorithm's own functions, played by the reference engine on the state of a
real federation, so that every bound on their way is in them. Noise is added by the code that adds
it in a round: once for what the server sees, be it the sum over one client or over many.

Shape suffixes: I items, W numbers that an upload has for one item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from tacit.core.algorithm import Algorithm, Exchange, Total
from tacit.data.views import TrainView
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.round import add_noise, begin
from tacit.engines.state import State
from tacit.errors import TacitError, argument
from tacit.experiment.trainer import Trainer
from tacit.memory import require_memory


@dataclass(frozen=True, eq=False)
class WatchedRound:
    """One round, and what each of some users adds to its sums."""

    algorithm: Algorithm
    server: State  # before the round, without clients
    exchange: Exchange
    shapes: dict[str, tuple[int, ...]]
    # by user and parameter: what is not zero, which is little, and where it stands
    added: dict[int, dict[str, tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.server.round_number + 1

    @property
    def n_items(self) -> int:
        return self.algorithm.task.n_items

    def write_down(self, user: int, total: Total) -> None:
        """Keep what one client adds to the sums that have a place for each item."""
        self.added[user] = {}
        for name, value in total.sums.items():
            if self.n_items in value.shape:
                self.shapes[name] = value.shape
                place_N = np.flatnonzero(value)
                self.added[user][name] = place_N, value.ravel()[place_N]

    def table(self, users: Sequence[int], noise_seed: int | None = None) -> np.ndarray:
        """(I, W): what arrives of some users together; without a seed before the noise. A matrix of
        items by items counts twice, with its rows and with its columns."""
        total = Total.zeros(self.shapes)
        total.clients = len(users)
        for user in users:
            for name, (place_N, value_N) in self.added[user].items():
                total.sums[name].reshape(-1)[place_N] += value_N
        if noise_seed is not None:
            add_noise(self.algorithm, self.server, total, noise_seed, self.exchange)
        rows = [
            np.moveaxis(value, axis, 0).reshape(size, -1)
            for value in total.sums.values()
            for axis, size in enumerate(value.shape)
            if size == self.n_items
        ]
        return np.concatenate(rows, axis=1)


def watch(trainer: Trainer, users: Sequence[int], first: int, most: int) -> list[WatchedRound]:
    """At most so many rounds in which clients send, from the first one on; rounds before it are
    trained, and the federation goes on between two that are watched."""
    algorithm = trainer.algorithm
    found: list[WatchedRound] = []
    require_uploads(algorithm, trainer.experiment.label)
    while len(found) < most and trainer.state.round_number < trainer.rounds:
        number = trainer.state.round_number + 1
        if number >= first and any(exchange.sends for exchange in algorithm.exchanges(number)):
            found.append(_watched(trainer, users))
            if not found[-1].shapes:
                raise TacitError(
                    f"{trainer.experiment.label} sends nothing that has a row for each item, and "
                    "this attack reads rows; give a method whose clients send an item table."
                )
        if len(found) < most:
            trainer.run_round()
    if not found:
        raise TacitError(
            f"Nobody sends in round {first} of {trainer.experiment.label} or after it (it has "
            f"{trainer.rounds}); attack an earlier round."
        )
    return found


def require_uploads(algorithm: Algorithm, name: str) -> None:
    """Refuse methods of which a server does not see uploads."""
    if algorithm.central is not None:
        raise TacitError(
            f"The server of {name} has all histories, so there is nothing to attack; give a "
            "federated method."
        )
    if algorithm.reads_tables is not None or algorithm.views_sent is not None:
        what = "personal tables" if algorithm.reads_tables is not None else "gradients of views"
        raise TacitError(
            f"The server of {name} reads {what}, which this attack does not look at; give a "
            "method whose clients send changes of an item table."
        )


def _watched(trainer: Trainer, users: Sequence[int]) -> WatchedRound:
    """What each user adds to the sums of the next round, in its first exchange that sends."""
    algorithm, train, seed = trainer.algorithm, trainer.train, trainer.experiment.seed
    number = trainer.state.round_number + 1
    state = trainer.state.on("cpu").copy()  # each client writes what is its own
    exchanges = list(algorithm.exchanges(number))
    last = next(place for place, exchange in enumerate(exchanges) if exchange.sends)
    server = State(dict(state.shared), {}, round_number=number - 1)
    watched = WatchedRound(algorithm, server, exchanges[last], {})
    for place, exchange in enumerate(exchanges[: last + 1]):
        for user in users:
            total = play_one(algorithm, train, state, exchange, user, seed)
            if place == last:
                watched.write_down(user, total)
            if place == last and user == users[0]:
                one = sum(part.nbytes for parts in watched.added[user].values() for part in parts)
                require_memory(
                    one * len(users),
                    what=f"What {len(users)} clients send in one round",
                    hint=f"attack fewer people ({argument('targets')}) or smaller sums "
                    f"({argument('clients')})",
                )
    return watched


def play_one(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    exchange: Exchange,
    user: int,
    seed: int,
) -> Total:
    """What one client adds to the sums of an exchange, as the server adds up; the client's part of
    the state is written."""
    who = Participants(np.array([user]), np.array([True]))
    dtype = next((value.dtype for value in state.shared.values()), torch.float32)
    begin(algorithm, train, state, who, exchange, seed)
    return LoopEngine(dtype).play(algorithm, train, state, exchange, who, seed)
