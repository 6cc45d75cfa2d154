"""Methods without a federation: controls, and central bars that a federated method must meet."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import torch

from tacit.core.types import Params
from tacit.data.sampling import Sampling
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


@runtime_checkable
class TrainedCentralMethod(Protocol):
    """A method that sees all histories at once and is trained epoch by epoch: an epoch is a round,
    and the usual selection on validation picks one. What `start` and `epoch` return is everything
    that the next epoch needs, the optimiser's moments included."""

    @property
    def sampling(self) -> Sampling: ...
    def start(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params: ...
    def epoch(
        self, leaves: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        """The leaves after epoch `number` (from 1), and its mean loss; what came in stays as is."""
        ...

    def score(self, leaves: Params, user_B: np.ndarray) -> np.ndarray:
        """(B, I) logits of known users, given by their places."""
        ...

    def score_newcomer(
        self, leaves: Params, history: np.ndarray, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new: only what is the user's own is fitted, by descent."""
        ...
