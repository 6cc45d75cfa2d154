"""The control that learns nothing: a random order of items for each user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import streams
from tacit.data.views import TrainView
from tacit.methods.entry import METHODS, Entry


@dataclass(frozen=True)
class RandomScores:
    n_items: int
    seed: int

    def score(self, histories: list[np.ndarray], key_B: np.ndarray) -> np.ndarray:
        return streams.uniforms(self.seed, streams.INIT, 0, key_B, self.n_items)


@dataclass(frozen=True)
class RandomOrder:
    """Scores drawn from the user's own stream: at chance, up to luck.

    >>> RandomOrder().settings
    1
    """

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> RandomScores:
        return RandomScores(train.n_items, seed)


METHODS["random"] = Entry(build=RandomOrder, summary="control: a random order per user", rounds=1)
