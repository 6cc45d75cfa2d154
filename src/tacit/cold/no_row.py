"""No row at all: for item encoders that read content alone, to which a cold item is like any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.cold.features import Features
from tacit.cold.leaves import like
from tacit.core.types import Params


@dataclass(frozen=True)
class NoRow:
    """Zeros.

    >>> p = NoRow().begin(2, 0, np.random.default_rng(0))
    >>> NoRow().generate(p, torch.zeros(1, 0), torch.zeros(1, 0, 2)).tolist()
    [[0.0, 0.0]]
    """

    @property
    def features(self) -> Features:
        return Features(modalities=(), reduce=False, kind="zero")

    @property
    def noise(self) -> int:
        return 0

    @property
    def lasts(self) -> bool:
        return False

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        return {"row": torch.zeros(width)}

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        return p

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        return like(p, feature_CF)["row"].repeat(len(feature_CF), 1)
