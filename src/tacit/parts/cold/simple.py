"""Generators that fit nothing over rounds: ridge regression, neighbours, random rows, no row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.core.parts import ColdStart
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.parts.cold.features import Features, like

# Rows by linear regression: the cheapest map from content to rows that can be right.


@register("ridge")
@dataclass(frozen=True)
class Ridge(ColdStart):
    """row = features A + b, in closed form: least squares over the warm items plus
    strength * W * (mean variance of a feature) * |A|², with b free.

    So `strength` has no unit: at 1 a feature of mean variance is shrunk to half of what it would
    be alone. It is solved in double precision.

    >>> ridge = Ridge(strength=1.0)
    >>> p = ridge.begin(1, 1, np.random.default_rng(0))
    >>> rows, features = torch.tensor([[1.0], [5.0]]), torch.tensor([[-1.0], [1.0]])
    >>> p = ridge.fit(p, rows, features, 1, np.random.default_rng(0))
    >>> ridge.generate(p, torch.tensor([[0.0], [2.0]]), torch.zeros(2, 0, 1)).tolist()
    [[3.0], [5.0]]
    """

    features: Features = Features(reduce=False)
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.strength > 0:
            raise TacitError(f"cold.strength is {self.strength}; it must be above 0.")

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        return {"map.w": torch.zeros(feature_width, width), "map.b": torch.zeros(width)}

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        centre_F, middle_D = feature_WF.double().mean(dim=0), table_WD.double().mean(dim=0)
        known_WF = feature_WF.double() - centre_F
        square_FF = known_WF.T @ known_WF
        penalty = self.strength * square_FF.trace() / max(len(square_FF), 1)
        weight_FD = known_WF.new_zeros(feature_WF.shape[1], table_WD.shape[1])
        if penalty > 0:  # features that never vary say nothing: the mean row stands for all
            square_FF.diagonal().add_(penalty)
            weight_FD = torch.linalg.solve(square_FF, known_WF.T @ (table_WD.double() - middle_D))
        shift_D = middle_D - centre_F @ weight_FD
        return {"map.w": weight_FD.to(table_WD.dtype), "map.b": shift_D.to(table_WD.dtype)}

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        p = like(p, feature_CF)
        return feature_CF @ p["map.w"] + p["map.b"]


# Rows of the neighbours: a cold item stands where warm items of like content stand.

_ENTRIES = 1 << 22  # of the likeness of cold and warm items that stand in memory at once


@register("nearest")
@dataclass(frozen=True)
class Nearest(ColdStart):
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


# Rows that know nothing: the floor that every generator must beat.


@register("random_rows")
@dataclass(frozen=True)
class RandomRows(ColdStart):
    """Normal rows with the mean and the standard deviation of each column of the warm table.

    >>> p = RandomRows().begin(2, 0, np.random.default_rng(0))
    >>> table = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    >>> p = RandomRows().fit(p, table, torch.zeros(2, 0), 1, np.random.default_rng(0))
    >>> RandomRows().generate(p, torch.zeros(1, 0), torch.full((1, 1, 2), 2.0)).tolist()
    [[4.0, 5.0]]
    """

    @property
    def features(self) -> Features:
        return Features(modalities=(), reduce=False, kind="zero")

    @property
    def noise(self) -> int:
        return 1

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        return {"table.mean": torch.zeros(width), "table.deviation": torch.zeros(width)}

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        deviation_D = table_WD.std(dim=0, correction=0)
        return {"table.mean": table_WD.mean(dim=0), "table.deviation": deviation_D}

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        p = like(p, noise_CND)
        return p["table.mean"] + p["table.deviation"] * noise_CND[:, 0]


# No row at all: for item encoders that read content alone, to which a cold item is like any.


@register("no_row")
@dataclass(frozen=True)
class NoRow(ColdStart):
    """Zeros.

    >>> p = NoRow().begin(2, 0, np.random.default_rng(0))
    >>> NoRow().generate(p, torch.zeros(1, 0), torch.zeros(1, 0, 2)).tolist()
    [[0.0, 0.0]]
    """

    @property
    def features(self) -> Features:
        return Features(modalities=(), reduce=False, kind="zero")

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        return {"row": torch.zeros(width)}

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        return like(p, feature_CF)["row"].repeat(len(feature_CF), 1)
