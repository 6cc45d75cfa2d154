"""The readable reference: one client after another, through the functions of the algorithm.

It runs every federated algorithm, composed or custom. Other engines are held equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from tacit.core.algorithm import TRAIN, Algorithm, Exchange, Total, Update
from tacit.core.types import EnginePath, Upload
from tacit.data.views import TrainView
from tacit.engines.clients import ClientDraws, client_state, write_update
from tacit.engines.participation import Participants, everybody
from tacit.engines.round import begin, play_round, train_on_views
from tacit.engines.state import State, initial_state


@dataclass(frozen=True)
class LoopEngine:
    """One client at a time. Slow, plain, and the standard that the fast engines are held to.

    `uploads` is where every upload is written down with its client, for whoever audits a method.
    """

    dtype: torch.dtype = torch.float32
    uploads: list[tuple[int, Upload]] | None = None

    def describe(self, algorithm: Algorithm) -> EnginePath:
        return EnginePath("loop", "loop: one client after another (the readable reference)")

    def start(self, algorithm: Algorithm, train: TrainView, seed: int) -> State:
        return initial_state(algorithm, train, seed, self.dtype)

    def round(
        self,
        algorithm: Algorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        def play(exchange: Exchange, who: Participants) -> Total:
            go = partial(self.play, train=train, state=state, exchange=exchange, who=who, seed=seed)
            views = algorithm.views_sent
            if exchange.name == TRAIN and views is not None:
                return train_on_views(views, state, seed, go)
            return go(algorithm)

        play_round(algorithm, train, state, participants, seed, play)

    def play(
        self,
        algorithm: Algorithm,
        train: TrainView,
        state: State,
        exchange: Exchange,
        who: Participants,
        seed: int,
        newcomer: bool = False,
    ) -> Total:
        """One exchange: clients are written in place, and their uploads are added up."""
        number = state.round_number + 1
        if state.tuned is not None:
            state.tuned.make_room(who.user_P)
        total = Total.zeros(algorithm.summed(exchange))
        draws = ClientDraws.of(algorithm, exchange, train, seed, number, self.dtype, newcomer)
        for user, reports in zip(who.user_P, who.reports_P, strict=True):
            data = draws.client(int(user))
            received = algorithm.broadcast(state.shared, data.user)
            client = client_state(algorithm, train, state, int(user))
            update = algorithm.update(exchange, received, client, data, number)
            write_update(algorithm, train, state, int(user), update)
            total.loss_sum += update.loss_sum
            total.samples += update.samples
            if reports and exchange.sends:
                if self.uploads is not None:
                    self.uploads.append((int(user), update.upload))
                declared = algorithm.declared(int(train.positives.size_U[user]))
                _collect(algorithm, state, total, data.user, update, algorithm.weight(declared))
        return total

    def train_alone(self, algorithm: Algorithm, train: TrainView, state: State, seed: int) -> None:
        """A round of local training of which nothing is sent, and nothing comes back."""
        everyone, exchange = everybody(train), Exchange(TRAIN, sends=False)
        begin(algorithm, train, state, everyone, exchange, seed)
        if state.broadcast is not None:
            state.broadcast = state.shared["items"].clone()
        self.play(algorithm, train, state, exchange, everyone, seed, newcomer=True)
        state.fresh_U[:] = True
        state.round_number += 1


def _collect(
    algorithm: Algorithm,
    state: State,
    total: Total,
    user: torch.Tensor,
    update: Update,
    weight: float,
) -> None:
    """One upload, added up; rows go to the items that they belong to."""
    total.weight += weight
    total.clients += 1
    upload = algorithm.absorbed(state.shared, user, update.upload)
    for name, change in upload.change.items():
        value = weight * change.double().numpy()
        if name in algorithm.sent_by_row:
            if name not in total.sums:
                total.sums[name] = np.zeros((algorithm.task.n_items, *value.shape[1:]))
            rows = torch.from_numpy(total.sums[name])
            rows.index_add_(0, upload.item_R, torch.from_numpy(value))
        else:
            total.add(name, value)
