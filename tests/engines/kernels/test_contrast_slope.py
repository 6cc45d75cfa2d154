"""The compiled slope of the contrast against the derivative of the term itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.engines.kernels.contrast_slope import Contrast, contrast_slope
from tacit.engines.kernels.exponential import Exponential
from tacit.parts.contrast import NORM_FLOOR, supervised_contrast


@pytest.mark.parametrize("size", [5, 64, 65, 150])  # one strip, exactly one, and several
def test_it_is_the_derivative(size: int) -> None:
    chance = np.random.default_rng(size)
    table = chance.standard_normal((200, 4))
    item = np.sort(chance.choice(200, size, replace=False))
    label = chance.integers(0, 4, size)  # 0: has no cluster
    label[:2] = 1
    row = torch.from_numpy(table[item]).requires_grad_()
    value = supervised_contrast(row, torch.from_numpy(label).double(), 0.1)
    (expected,) = torch.autograd.grad(value, row)
    contrast = Contrast.of(item, label, 4, table.dtype)
    limits = (np.finfo(np.float64).tiny, NORM_FLOOR)
    contrast_slope(table, contrast, 1 / 0.1, *limits, Exponential.of(table.dtype))
    found = contrast.slope_SD / size
    assert np.allclose(found, expected.numpy(), rtol=0, atol=1e-12 * np.abs(found).max())
    assert np.abs(found).max() > 1e-3


def test_nobody_has_a_positive_where_there_are_no_clusters() -> None:
    contrast = Contrast.of(np.arange(3), np.zeros(3, dtype=np.int64), 2, np.dtype(np.float64))
    assert not contrast.positives_S.any()
