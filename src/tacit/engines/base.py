"""What every engine does the same way: begin, collect uploads in float64, let the server step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from tacit import streams
from tacit.core.compose import Algorithm
from tacit.core.types import Params
from tacit.data.views import TrainView
from tacit.engines.participation import Participants
from tacit.engines.state import State


class Engine(Protocol):
    """Runs rounds of one algorithm. All engines give the same numbers; tests hold them to it."""

    def describe(self, algorithm: Algorithm) -> str:
        """Which path runs, and why."""
        ...

    def start(self, algorithm: Algorithm, train: TrainView, seed: int) -> State: ...

    def round(
        self,
        algorithm: Algorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        """Play one round; `state` is written in place."""
        ...


@dataclass(eq=False)
class Totals:
    """The sum of all reporting clients' weighted changes, in float64, and what goes with it."""

    change: dict[str, np.ndarray]
    weight: float = 0.0
    clients: int = 0
    loss_sum: float = 0.0
    samples: int = 0

    @classmethod
    def empty(cls, state: State) -> Totals:
        return cls({name: np.zeros(tuple(leaf.shape)) for name, leaf in state.shared.items()})


def finish_round(
    algorithm: Algorithm,
    state: State,
    participants: Participants,
    totals: Totals,
    seed: int,
) -> None:
    """Noise on the sum, the server's step, and the bookkeeping of who holds what."""
    round_number = state.round_number + 1
    if state.broadcast is not None:
        state.broadcast = state.shared[algorithm.row_leaf].clone()
    if totals.clients and algorithm.method.sync.sends(round_number):
        for name, total in totals.change.items():
            # one generator for the whole chain: two links must not draw the same noise
            generator = streams.numpy_generator(
                seed, streams.NOISE, round_number, streams.name_of(name)
            )
            for link in algorithm.method.channel:
                total = link.add_noise(total, totals.clients, generator)
            leaf = state.shared[name]
            with np.errstate(over="ignore", invalid="ignore"):  # divergence is said when ranked
                stepped = algorithm.method.server.step(
                    leaf.cpu().numpy().astype(np.float64), total, totals.weight
                )
            state.shared[name] = torch.from_numpy(stepped).to(leaf)
    state.fresh_U[:] = False
    state.fresh_U[participants.user_P] = True
    state.loss = totals.loss_sum / totals.samples if totals.samples else float("nan")
    state.round_number = round_number


def upload_factor(algorithm: Algorithm, change: Params, batch_dims: int = 0) -> torch.Tensor | None:
    """How much of an upload passes the channel's clips; one number per client of a block.

    None where the channel does not clip. Norms are taken over all leaves together, in float64.
    """
    factor: torch.Tensor | None = None
    for link in algorithm.method.channel:
        if link.order is None:
            continue
        flat = [value.double().flatten(batch_dims) for value in change.values()]
        norm = torch.cat(flat, dim=-1).norm(link.order, dim=-1)
        step = link.factor(norm if factor is None else norm * factor)
        factor = step if factor is None else factor * step
    return factor
