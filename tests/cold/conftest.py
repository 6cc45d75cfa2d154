"""A toy dataset: rows are a linear function of features, plus a little noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.core.parts import ColdStart


@dataclass(frozen=True, eq=False)
class Toy:
    """Warm rows with their features, and cold ones to be found."""

    warm_WD: Tensor
    feature_WF: Tensor
    cold_CD: Tensor
    feature_CF: Tensor

    def rows(self, part: ColdStart, fits: int, seed: int = 0) -> Tensor:
        """What a generator makes of the cold items after so many fits."""
        generator = np.random.default_rng(seed)
        p = part.begin(self.warm_WD.shape[1], self.feature_WF.shape[1], generator)
        for number in range(1, fits + 1):
            p = part.fit(p, self.warm_WD, self.feature_WF, number, generator)
        shape = (len(self.cold_CD), part.noise, self.cold_CD.shape[1])
        return part.generate(p, self.feature_CF, normals(*shape, seed=seed + 1))

    def explained(self, row_CD: Tensor) -> float:
        """The share of the cold rows' spread around the mean warm row that is found."""
        error = (row_CD - self.cold_CD).square().mean()
        return float(1 - error / (self.cold_CD - self.warm_WD.mean(0)).square().mean())


def normals(*shape: int, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.fixture
def toy() -> Toy:
    feature = normals(356, 6, seed=1)
    # three directions matter: the denoiser's tower is only half as wide as a row
    map_FD = 0.1 * normals(6, 3, seed=2) @ normals(3, 8, seed=4)
    row = feature @ map_FD + 0.05 * normals(356, 8, seed=3) + 0.1
    return Toy(row[:256], feature[:256], row[256:], feature[256:])
