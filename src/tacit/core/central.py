"""Methods without a federation: controls, and central bars that a federated method must meet."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from tacit.data.views import TrainView


class HistoryScorer(Protocol):
    """A fitted model that scores the whole catalogue for histories of any users, known or new."""

    def score(self, histories: list[np.ndarray], key_B: np.ndarray) -> np.ndarray:
        """(B, I) scores for B histories; `key_B` names the users, for methods that draw by name."""
        ...


@runtime_checkable
class CentralMethod(Protocol):
    """A method that sees all histories at once. It has settings to try instead of rounds: "round" r
    fits setting r, and the usual selection on validation picks one."""

    @property
    def settings(self) -> int: ...
    def fit(self, train: TrainView, setting: int, seed: int) -> HistoryScorer: ...
