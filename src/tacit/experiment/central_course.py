"""Settings of a central method, one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.central import CentralMethod, HistoryScorer
from tacit.data.sampling import DrawnNegatives
from tacit.data.views import TrainView
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.spec import Experiment

CENTRAL_READS = "every history in full: this is a central method"


@dataclass(eq=False)
class CentralCourse:
    """Settings of a central method, one after another; validation picks one as it picks rounds."""

    experiment: Experiment
    method: CentralMethod
    train: TrainView
    setting: int = 0
    fitted: HistoryScorer | None = None
    best: HistoryScorer | None = None

    @property
    def rounds(self) -> int:
        return min(self.experiment.rounds, self.method.settings)

    @property
    def loss(self) -> float | None:
        return None

    def describe(self) -> str:
        return f"central: {self.method.settings} setting(s), all histories on the server"

    def advance(self) -> None:
        self.fitted = self.method.fit(self.train, self.setting, self.experiment.seed)
        self.setting += 1

    def scores(self) -> ScoreBlock:
        assert self.fitted is not None
        return self._block(self.fitted)

    def _block(self, scorer: HistoryScorer) -> Callable[[np.ndarray], np.ndarray]:
        positives, keys = self.train.positives, self.train.user_key_U
        return lambda user_B: scorer.score([positives[int(u)] for u in user_B], keys[user_B])

    def mark_best(self) -> None:
        self.best = self.fitted

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return self._block(self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        """Nothing to keep: a setting is fitted in one go, and again if the run begins anew."""

    def restore(self, folder: Path) -> dict[str, Any] | None:
        return None

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        """Nothing to keep: the selected setting is fitted again where it is needed."""

    def drawn(self, rounds: int) -> DrawnNegatives:
        return DrawnNegatives.nothing(self.train)

    def cost(self, rounds: int) -> dict[str, int]:
        return central_cost(self.train)

    def server_reads(self) -> list[str]:
        return [CENTRAL_READS]


def central_cost(train: TrainView) -> dict[str, int]:
    """Everybody sends a history once, 8 bytes for each item."""
    mean_history = round(8 * len(train.positives.item_N) / train.n_users)
    return {
        "bytes_up": mean_history,
        "bytes_down": 0,
        "exchanges": train.n_users,
        "bytes_total_to_selected_round": 8 * len(train.positives.item_N),
        "client_bytes": mean_history,
    }
