"""The control that trains nothing: an item is as good as its content is like the user's own items.

It needs no federation: a device that has the content of its items and of the candidates can do it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.cold.features import Features
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry


@dataclass(frozen=True, eq=False)
class ProfileScorer:
    """Cosines between items and the mean of a history."""

    unit_IF: np.ndarray

    def score(self, histories: list[np.ndarray], key_B: np.ndarray) -> np.ndarray:
        profile_BF = np.stack([self.unit_IF[items].mean(axis=0) for items in histories])
        return profile_BF @ self.unit_IF.T


@dataclass(frozen=True)
class MeanProfile:
    """score = cos(f_i, mean of f over the user's train items).

    >>> MeanProfile().settings
    1
    """

    features: Features = Features(reduce=False)

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> ProfileScorer:
        if not train.content:
            raise TacitError("mean_profile compares content, and this data has none; encode some.")
        touched_I = train.popularity_I() > 0
        row_IF = self.features.rows(train.content, touched_I, 1)
        length_I1 = np.linalg.norm(row_IF, axis=1, keepdims=True)
        return ProfileScorer(row_IF / np.maximum(length_I1, 1e-12))


METHODS["mean_profile"] = Entry(
    build=MeanProfile, summary="control: content like that of the user's own items", rounds=1
)
