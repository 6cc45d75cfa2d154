"""The control that knows nothing of a person: items by how often they occur in train."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.views import TrainView
from tacit.methods.entry import METHODS, Entry


@dataclass(frozen=True, eq=False)
class OneOrder:
    """The same scores for everybody."""

    score_I: np.ndarray

    def score(self, histories: list[np.ndarray], key_B: np.ndarray) -> np.ndarray:
        return np.tile(self.score_I, (len(histories), 1))


@dataclass(frozen=True)
class Popularity:
    """Every user gets the same list.

    >>> Popularity().settings
    1
    """

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> OneOrder:
        return OneOrder(train.popularity_I().astype(np.float64))


METHODS["popularity"] = Entry(build=Popularity, summary="control: items by train count", rounds=1)
