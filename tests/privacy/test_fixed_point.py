"""Vectors as whole numbers: rounding never lifts one over its bound, a ring gives them back."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy.fixed_point import FixedPoint, into_ring, out_of_ring, ring_bits

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
NEAR = st.floats(-4.0, 4.0)


def squared(units: np.ndarray) -> int:
    return sum(int(one) ** 2 for one in units)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(NUMBERS | NEAR, min_size=1, max_size=40),
    st.floats(1e-3, 1e3),
    st.integers(0, 30),
)
def test_rounding_never_lifts_a_vector_over_its_bound(
    value: list[float], bound: float, exponent: int
) -> None:
    step = 2.0 ** (np.floor(np.log2(bound)) - exponent)
    code = FixedPoint(bound, step, len(value))
    units = code.encode(np.array(value))
    assert units.dtype == np.int64
    assert squared(units) <= Fraction(bound) ** 2 / Fraction(step) ** 2
    assert sum(abs(int(one)) for one in units) <= code.l1
    assert max(abs(int(one)) for one in units) <= code.largest


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=20))
def test_a_vector_within_its_bound_loses_less_than_a_step_toward_zero(value: list[float]) -> None:
    code = FixedPoint(bound=8.0, step=2.0**-12, length=len(value))
    original = np.array(value)
    decoded = code.decode(code.encode(original))
    assert (np.abs(original - decoded) < code.step).all()
    assert (np.abs(decoded) <= np.abs(original)).all()
    assert (code.encode(decoded) == code.encode(original)).all()


def test_rounding_to_the_nearest_would_have_lifted_one() -> None:
    """The control: what the rule is for."""
    code = FixedPoint(bound=1.0, step=2.0**-4, length=400)
    value = np.full(400, 1.0 / 20)  # of norm 1: 0.8 steps in each entry
    assert squared(np.rint(value / code.step)) > code.most_squared
    assert squared(code.encode(value)) == 0


def test_the_last_bit_of_the_scaling_is_taken_away_again() -> None:
    """Whole numbers just over a bound: scaling alone would round them back up to themselves."""
    lifted = 0
    for whole in ((3, 4), (24, 2, 1), (32, 39), (38, 52, 10), (1, 33, 46), (42, 43, 16)):
        length = len(whole)
        bound = float(np.nextafter(np.sqrt(np.dot(whole, whole)), 0.0))
        code = FixedPoint(bound, step=1.0, length=length)
        for factor in np.random.default_rng(0).uniform(1.0, 9.0, 50):
            value = np.array(whole) * factor
            assert squared(code.encode(value)) <= code.most_squared < np.dot(whole, whole)
            lifted += squared(np.trunc(value / np.linalg.norm(value) * bound)) > code.most_squared
    assert lifted > 10


def test_a_long_vector_keeps_its_direction() -> None:
    value = np.random.default_rng(0).normal(size=10_000) * 1e30
    code = FixedPoint(bound=2.5, step=2.0**-24, length=10_000)
    decoded = code.decode(code.encode(value))
    assert np.linalg.norm(decoded) == pytest.approx(2.5, rel=1e-4)
    assert np.linalg.norm(decoded) <= 2.5
    assert decoded @ value / np.linalg.norm(decoded) / np.linalg.norm(value) > 1 - 1e-9


def test_the_l1_bound_is_met_by_some_vector() -> None:
    spread = FixedPoint(bound=4.0, step=1.0, length=100)  # sixteen ones
    assert np.abs(spread.encode(np.repeat([1.0, 0.0], [16, 84]))).sum() == spread.l1 == 16
    short = FixedPoint(bound=4.0, step=1.0, length=4)  # four twos
    assert np.abs(short.encode(np.full(4, 2.0))).sum() == short.l1 == 8


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**27), 2**27), min_size=3, max_size=3), max_size=8))
def test_sums_in_a_ring_are_sums(rows: list[list[int]]) -> None:
    for bits in (32, 64):
        total = into_ring(np.zeros(3, dtype=np.int64), bits)
        for row in rows:
            total += into_ring(np.array(row), bits)
        assert out_of_ring(total).tolist() == np.sum([[0, 0, 0], *rows], axis=0).tolist()


def test_a_ring_has_room_for_the_largest_sum() -> None:
    assert out_of_ring(into_ring(np.array([2**31 - 1, 1 - 2**31]), 32)).tolist() == [
        2**31 - 1,
        1 - 2**31,
    ]
    assert (ring_bits(2.0**31), ring_bits(2.0**62)) == (64, 64)
    with pytest.raises(TacitError, match="fits no ring"):
        ring_bits(2.0**63)


@pytest.mark.parametrize(
    ("bound", "step", "length", "said"),
    [
        (0.0, 0.5, 1, "The bound is 0.0"),
        (float("nan"), 0.5, 1, "The bound is nan"),
        (1.0, 0.1, 1, "power of two"),
        (1.0, float("inf"), 1, "power of two"),
        (1.0, 0.5, 0, "at least 1 number"),
        (1.0, 2.0, 1, "between 1 and 2"),
        (1.0, 2.0**-52, 1, "between 1 and 2"),
    ],
)
def test_numbers_that_make_no_sense(bound: float, step: float, length: int, said: str) -> None:
    with pytest.raises(TacitError, match=said):
        FixedPoint(bound, step, length)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 1)), r"shape \(2, 1\)"),
        (np.array([1.0, np.nan]), "not finite"),
        (np.array([1.0, -np.inf]), "not finite"),
        (np.array([1j, 0]), "type complex128"),
        (np.array(["1", "2"]), "vectors of numbers"),
        (np.array([True, False]), "type bool"),
    ],
)
def test_vectors_that_cannot_be_summed(value: np.ndarray, said: str) -> None:
    with pytest.raises(TacitError, match=said):
        FixedPoint(1.0, 0.5, 2).encode(value)
