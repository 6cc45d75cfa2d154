"""Rows by linear regression: the cheapest map from content to rows that can be right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.cold.features import Features
from tacit.cold.leaves import like
from tacit.core.types import Params
from tacit.errors import TacitError


@dataclass(frozen=True)
class Ridge:
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

    @property
    def noise(self) -> int:
        return 0

    @property
    def lasts(self) -> bool:
        return False

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
