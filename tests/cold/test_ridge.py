"""Ridge by hand, and where features say nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.parts.cold.simple import Ridge


def fitted(ridge: Ridge, table: Tensor, feature: Tensor) -> dict[str, Tensor]:
    p = ridge.begin(table.shape[1], feature.shape[1], np.random.default_rng(0))
    return ridge.fit(p, table, feature, 1, np.random.default_rng(0))


def test_by_hand() -> None:
    """Features 1, 2, 3, 6: mean 3, squares 4+1+0+9 = 14; rows 2, 0, 1, 9: mean 3,
    products (-2)(-1) + (-1)(-3) + 0 + 3 * 6 = 23. The penalty at strength 0.5 is 0.5 * 14 = 7, so
    the slope is 23 / 21 and the row of feature 6 is 3 + 3 * 23 / 21."""
    feature = torch.tensor([[1.0], [2.0], [3.0], [6.0]])
    table = torch.tensor([[2.0], [0.0], [1.0], [9.0]])
    p = fitted(Ridge(strength=0.5), table, feature)
    assert p["map.w"].item() == pytest.approx(23 / 21)
    row = Ridge().generate(p, torch.tensor([[6.0]]), torch.zeros(1, 0, 1))
    assert row.item() == pytest.approx(3 + 3 * 23 / 21)


def test_two_features_by_hand() -> None:
    """Orthogonal features of variances 1 and 4: both are shrunk by the mean variance, 2.5."""
    feature = torch.tensor([[1.0, 2.0], [-1.0, 2.0], [1.0, -2.0], [-1.0, -2.0]])
    table = feature @ torch.tensor([[3.0], [5.0]]) + 7.0
    p = fitted(Ridge(strength=1.0), table, feature)
    assert p["map.w"].flatten().tolist() == pytest.approx([3 * 1 / 3.5, 5 * 4 / 6.5])
    assert p["map.b"].item() == pytest.approx(7.0)


def test_features_that_do_not_vary_give_the_mean_row() -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    for feature in (torch.zeros(2, 3), torch.full((2, 3), 4.0), torch.zeros(2, 0)):
        ridge = Ridge()
        rows = ridge.generate(fitted(ridge, table, feature), feature, torch.zeros(2, 0, 2))
        torch.testing.assert_close(rows, torch.tensor([[2.0, 4.0]]).repeat(2, 1))


def test_more_features_than_items() -> None:
    generator = np.random.default_rng(0)
    feature = torch.from_numpy(generator.normal(size=(5, 40)).astype(np.float32))
    table = torch.from_numpy(generator.normal(size=(5, 2)).astype(np.float32))
    ridge = Ridge(strength=1e-6)
    rows = ridge.generate(fitted(ridge, table, feature), feature, torch.zeros(5, 0, 2))
    torch.testing.assert_close(rows, table, rtol=1e-3, atol=1e-3)
