"""The control for splits that give items away: what nobody has in train stands first.

Where few items are in nobody's train and many held-out ones are among them, as in NineRec KU, this
order needs no model to look good. It is what training drifts to when such items are never drawn as
negatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.data.views import TrainView
from tacit.methods.entry import METHODS, Entry
from tacit.methods.popularity import OneOrder


@dataclass(frozen=True)
class UnseenFirst:
    """Every user gets the same list: unseen items, then by train count, `popular` or `rare` first.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 2, 3]), np.array([0, 2, 2]))
    >>> train = TrainView(3, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> UnseenFirst().fit(train, 0, seed=0).score_I.tolist()
    [1.0, 3.0, 2.0]
    >>> UnseenFirst(then="rare").fit(train, 0, seed=0).score_I.tolist()
    [-1.0, 0.0, -2.0]
    """

    then: Literal["popular", "rare"] = "popular"

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> OneOrder:
        count_I = train.popularity_I().astype(np.float64)
        if self.then == "rare":
            return OneOrder(0.0 - count_I)
        return OneOrder(np.where(count_I == 0, count_I.max() + 1, count_I))


METHODS["unseen_first"] = Entry(
    build=UnseenFirst, summary="control: items in nobody's train, then by train count", rounds=1
)
