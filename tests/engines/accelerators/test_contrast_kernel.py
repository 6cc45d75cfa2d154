"""The compiled slope of the contrast against the derivative of the term itself, and the compiled
exponential in it against the library's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.engines.accelerators.contrast import (
    Contrast,
    Exponential,
    contrast_slope,
    exp_in_place,
)
from tacit.parts.contrast import GroupKept, supervised_contrast


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
    contrast = Contrast.of(GroupKept(temperature=0.1), item, label, 4, table.dtype)
    contrast_slope(table, contrast)
    found = contrast.slope_SD / size
    assert np.allclose(found, expected.numpy(), rtol=0, atol=1e-12 * np.abs(found).max())
    assert np.abs(found).max() > 1e-3


def test_nobody_has_a_positive_where_there_are_no_clusters() -> None:
    nobody, wide = np.zeros(3, dtype=np.int64), np.dtype(np.float64)
    contrast = Contrast.of(GroupKept(), np.arange(3), nobody, 2, wide)
    assert not contrast.positives_S.any()
    assert not contrast.has_positives


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 256, 1000])
def test_to_two_units_in_the_last_place(kind: type, size: int) -> None:
    cosine = np.random.default_rng(size).uniform(-1, 1, size).astype(kind)
    exact = np.exp((cosine.astype(np.longdouble) - 1) * 10)
    found = cosine.copy()
    exp_in_place(found, kind(1), kind(10), Exponential.of(found.dtype))
    # (cosine - 1) * 10 is itself rounded: half a unit of a number of up to 20
    assert (np.abs(found - exact) <= (20 + 2) * np.finfo(kind).eps * exact).all()


@pytest.mark.parametrize(("kind", "least"), [(np.float32, -87.0), (np.float64, -708.0)])
def test_at_the_ends(kind: type, least: float) -> None:
    value = np.array([0.0, -0.0, least, np.nextafter(least, -np.inf) * 1.01, -1e30], dtype=kind)
    exp_in_place(value, kind(0), kind(1), Exponential.of(value.dtype))
    assert value[:2].tolist() == [1.0, 1.0]
    assert value[2] == pytest.approx(np.exp(least), rel=1e-5)
    assert value[3:].tolist() == [0.0, 0.0]
