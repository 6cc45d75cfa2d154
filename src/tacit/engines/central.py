"""The engine for central methods: all histories lie on the server, and a round is a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit.core.central import CentralAlgorithm, Fitted
from tacit.core.types import EnginePath
from tacit.data.views import TrainView
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.evaluation.ranking import ScoreBlock


@dataclass(frozen=True)
class CentralEngine:
    """Settings or epochs of a central method, one after another."""

    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    def describe(self, algorithm: CentralAlgorithm) -> EnginePath:
        where = "" if self.device == "cpu" else f", on {self.device}"
        return EnginePath("central", f"{algorithm.path}{where}")

    def start(self, algorithm: CentralAlgorithm, train: TrainView, seed: int) -> State:
        state = State(shared=algorithm.start(train, seed, self.dtype), private={})
        state.fresh_U = np.zeros(train.n_users, dtype=bool)
        return state.on(self.device)

    def round(
        self,
        algorithm: CentralAlgorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        """What was fitted before stays as it is, so that a selected round needs no copy."""
        number = state.round_number + 1
        before = state.on(self.device).shared  # what was read from a disk is not there yet
        fitted = algorithm.fit(before, train, seed, number)
        state.shared, state.loss = fitted.parameters, fitted.loss
        state.fitted = fitted if fitted.model is not None else None
        state.round_number = number


def central_scorer(
    algorithm: CentralAlgorithm, train: TrainView, state: State, seed: int
) -> ScoreBlock:
    """users (B,) -> logits (B, I)."""
    fitted = fitted_of(algorithm, train, state, seed)
    return lambda user_B: algorithm.scores(fitted, train, user_B)


def fitted_of(algorithm: CentralAlgorithm, train: TrainView, state: State, seed: int) -> Fitted:
    """What the last round made; what was not kept is fitted again, to the same numbers."""
    if state.fitted is not None:
        return state.fitted
    if algorithm.saved:
        return Fitted(state.shared, state.loss)
    return algorithm.fit({}, train, seed, state.round_number)
