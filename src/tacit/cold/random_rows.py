"""Rows that know nothing: the floor that every generator must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.cold.features import Features
from tacit.cold.leaves import like
from tacit.core.types import Params


@dataclass(frozen=True)
class RandomRows:
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

    @property
    def lasts(self) -> bool:
        return False

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
