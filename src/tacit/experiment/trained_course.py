"""Epochs of a central method, with what a run keeps of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.central.pairs import PairModel
from tacit.core.central import TrainedCentralMethod
from tacit.data.sampling import DrawnNegatives
from tacit.data.views import TrainView
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.central_course import CENTRAL_READS, central_cost
from tacit.experiment.checkpoint import load_pair, save_state
from tacit.experiment.spec import Experiment


class TrainedCourse:
    """Epochs of a central method; validation picks one as it picks rounds."""

    def __init__(
        self, experiment: Experiment, method: TrainedCentralMethod, train: TrainView
    ) -> None:
        if experiment.device != "cpu":
            raise TacitError(f"{experiment.name} runs on the CPU only; use --device cpu.")
        self.experiment, self.method, self.train = experiment, method, train
        dtype = torch.float64 if experiment.precision == "float64" else torch.float32
        # the moments lie beside the parameters: together they are what the server holds
        self.state = State(shared=method.start(train, experiment.seed, dtype), private={})
        self.best: State | None = None

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss

    def describe(self) -> str:
        said = "central: an epoch of mini-batches is a round, all histories on the server"
        if not isinstance(self.method, PairModel):
            return said
        kernel = self.method.kernel
        return f"{said} ({'batch after batch' if kernel is None else f'{kernel} kernel'})"

    def advance(self) -> None:
        number = self.state.round_number + 1
        leaves, loss = self.method.epoch(
            self.state.shared, self.train, self.experiment.seed, number
        )
        self.state = State(shared=leaves, private={}, round_number=number, loss=loss)

    def scores(self) -> ScoreBlock:
        return self._block(self.state)

    def _block(self, state: State) -> ScoreBlock:
        return lambda user_B: self.method.score(state.shared, user_B)

    def mark_best(self) -> None:
        self.best = self.state  # no copy: an epoch makes new leaves and leaves the old ones alone

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return self._block(self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        save_state(folder, self.state, note)

    def restore(self, folder: Path) -> dict[str, Any] | None:
        expected = {leaf: tuple(value.shape) for leaf, value in self.state.shared.items()}
        saved = load_pair(folder, expected)
        if saved is None:
            return None
        self.state, self.best, note = saved
        return note

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        if self.best is not None:
            save_state(folder, self.best, note or {})

    def drawn(self, rounds: int) -> DrawnNegatives:
        """Which items each user drew as negatives up to an epoch, drawn again from the streams."""
        everyone = np.arange(self.train.n_users)
        return DrawnNegatives.of(
            self.train,
            self.method.sampling,
            seed=self.experiment.seed,
            rounds=((number, everyone) for number in range(1, rounds + 1)),
            epochs=1,
        )

    def cost(self, rounds: int) -> dict[str, int]:
        return central_cost(self.train)

    def server_reads(self) -> list[str]:
        return [CENTRAL_READS]
