"""The compiled exponential against the library's."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.engines.kernels.exponential import Exponential, exp_in_place


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
