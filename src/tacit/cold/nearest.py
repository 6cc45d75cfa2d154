"""Rows of the neighbours: a cold item stands where warm items of like content stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.cold.features import Features
from tacit.cold.leaves import like
from tacit.core.types import Params
from tacit.errors import TacitError

_ENTRIES = 1 << 22  # of the likeness of cold and warm items that stand in memory at once


@dataclass(frozen=True)
class Nearest:
    """The mean row of the warm items with the nearest features by cosine, or of all where there
    are no more than `neighbours`. An item without features is as near to one as to another.

    >>> nearest = Nearest(neighbours=1)
    >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> p = nearest.begin(1, 2, np.random.default_rng(0))
    >>> p = nearest.fit(p, torch.tensor([[5.0], [7.0]]), features, 1, np.random.default_rng(0))
    >>> nearest.generate(p, torch.tensor([[0.1, 3.0]]), torch.zeros(1, 0, 1)).tolist()
    [[7.0]]
    """

    features: Features = Features(reduce=False)
    neighbours: int = 10

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise TacitError(f"cold.neighbours is {self.neighbours}; it must be at least 1.")

    @property
    def noise(self) -> int:
        return 0

    @property
    def lasts(self) -> bool:
        return False

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        # one warm item that is nothing: before the first fit every row is zero
        return {"warm.direction": torch.zeros(1, feature_width), "warm.row": torch.zeros(1, width)}

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        return {"warm.direction": _directions(feature_WF), "warm.row": table_WD.clone()}

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        p = like(p, feature_CF)
        warm_WF, row_WD = p["warm.direction"], p["warm.row"]
        count = min(self.neighbours, len(row_WD))
        row_CD = row_WD.new_empty(len(feature_CF), row_WD.shape[1])
        block = max(1, _ENTRIES // len(row_WD))
        for first in range(0, len(feature_CF), block):
            direction_BF = _directions(feature_CF[first : first + block])
            near_BK = torch.topk(direction_BF @ warm_WF.T, count, dim=1).indices
            row_CD[first : first + block] = row_WD[near_BK].mean(dim=1)
        return row_CD


def _directions(feature_NF: Tensor) -> Tensor:
    return torch.nn.functional.normalize(feature_NF, dim=1)
