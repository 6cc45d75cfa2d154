"""Rounds of a method that speaks for itself, with what a run keeps and counts of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.core.direct import DirectMethod
from tacit.core.types import Params, Task
from tacit.data.sampling import DrawnNegatives
from tacit.data.views import TrainView
from tacit.engines.direct import DirectEngine
from tacit.engines.direct_data import RoundData, one_client
from tacit.engines.direct_scoring import DirectScorer
from tacit.engines.history_rows import shape_in_state, taken
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.checkpoint import load_pair, save_state
from tacit.experiment.spec import Experiment


def direct_engine_of(experiment: Experiment) -> DirectEngine:
    """The engine an experiment asks for; refuses what such methods cannot run on.

    >>> from tacit.methods import Popularity
    >>> direct_engine_of(Experiment("test", Popularity(), rounds=1, engine="loop")).block
    1
    """
    if experiment.device != "cpu":
        raise TacitError(f"{experiment.name} runs on the CPU only; use --device cpu.")
    if experiment.engine == "fused":
        raise TacitError(
            f"The fused engine cannot run {experiment.name}: it is no expression over a trained "
            "item table; use --engine cohort."
        )
    dtype = torch.float64 if experiment.precision == "float64" else torch.float32
    return DirectEngine(dtype, block=1 if experiment.engine == "loop" else None)


class DirectCourse:
    """Rounds of a method that speaks for itself."""

    def __init__(self, experiment: Experiment, method: DirectMethod, train: TrainView) -> None:
        self.experiment, self.method, self.train = experiment, method, train
        self.task = Task(train.n_users, train.n_items)
        self.engine = direct_engine_of(experiment)
        self.state: State = self.engine.start(method, train, experiment.seed)
        self.best: State | None = None

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss

    def describe(self) -> str:
        return self.engine.describe(self.method, self.task)

    def advance(self) -> None:
        participants = self._participants(self.state.round_number + 1)
        self.engine.round(self.method, self.train, self.state, participants, self.experiment.seed)

    def _participants(self, round_number: int) -> Participants:
        return self.experiment.participation.draw(self.train, self.experiment.seed, round_number)

    def scores(self) -> ScoreBlock:
        return DirectScorer(self.method, self.train, self.state)

    def mark_best(self) -> None:
        self.best = None  # let go of the old copy first: two of them may not fit
        self.best = self.state.copy()

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return DirectScorer(self.method, self.train, self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        save_state(folder, self.state, note)

    def restore(self, folder: Path) -> dict[str, Any] | None:
        expected = {leaf: init.shape for leaf, init in self.method.shared(self.task).items()}
        expected |= shape_in_state(self.method, self.train)
        saved = load_pair(folder, expected)
        if saved is None:
            return None
        self.state, self.best, note = saved
        return note

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        if self.best is not None:
            save_state(folder, self.best, note or {})

    def drawn(self, rounds: int) -> DrawnNegatives:
        """Which items each user drew as negatives up to a round, drawn again from the streams."""
        if self.method.sampling is None:
            return DrawnNegatives.nothing(self.train)
        return DrawnNegatives.of(
            self.train,
            self.method.sampling,
            seed=self.experiment.seed,
            rounds=((n, self._participants(n).user_P) for n in range(1, rounds + 1)),
            epochs=1,
        )

    @torch.no_grad()
    def cost(self, rounds: int) -> dict[str, int]:
        """Bytes of what `broadcast` and `update` really return, in rounds that send.

        Rows count as whole tables: which rows are there would tell the history.
        """
        user = int(np.flatnonzero(self.train.positives.size_U > 0)[0])
        data = RoundData.begin(
            self.method, self.train, self.experiment.seed, 1, self.engine.dtype
        ).block(np.array([user]))
        client = one_client(data)
        received = self.method.broadcast(self.state.shared, client.user)
        alone = taken(self.method, self.train, self.state.private, np.array([user]))
        own = {leaf: value[0] for leaf, value in alone.items()}
        _, upload = self.method.update(received, own, client, 1)
        up, down, kept = self._bytes(upload), self._bytes(received), self._bytes(own)
        sending = [n for n in range(1, rounds + 1) if self.method.sends(n)]
        exchanges = sum(len(self._participants(n).user_P) for n in sending)
        return {
            "bytes_up": up,
            "bytes_down": down,
            "exchanges": exchanges,
            "bytes_total_to_selected_round": exchanges * (up + down),
            "client_bytes": down + kept,
        }

    def _bytes(self, leaves: Params) -> int:
        floats = 0
        for leaf, value in leaves.items():
            rows = leaf in self.method.row_leaves
            floats += value[0].numel() * self.train.n_items if rows else value.numel()
        return floats * (8 if self.experiment.precision == "float64" else 4)

    def server_reads(self) -> list[str]:
        return self.method.says()
