"""The five measures, from numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.attack import measures
from tacit.attack.measures import Measures, differences, leakage, measure, structure

TRUTH = np.array([[3.0, 4.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
GUESS = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 2.0]])


def test_errors() -> None:
    found = measure(TRUTH, GUESS)
    # squares 16, 1, 4 and sizes 4, 1, 2 over nine entries
    assert found.mse == pytest.approx(21 / 9)
    assert found.mae == pytest.approx(7 / 9)


def test_cosine_is_that_of_an_items_two_rows_and_zero_where_undefined() -> None:
    # 9 / (5 * 3), a guess of zeros, 4 / (2 * 2 sqrt 2)
    assert measure(TRUTH, GUESS).cosine == pytest.approx((0.6 + 0.0 + math.sqrt(0.5)) / 3)


def test_pearson_is_over_the_entries_of_an_item() -> None:
    truth = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    guess = np.array([[2.0, 2.0, 5.0], [0.1, 0.1, 0.1]])
    # (-1, 0, 1) . (-1, -1, 2) = 3, sizes sqrt 2 and sqrt 6; a constant row has no correlation
    assert measure(truth, guess).pearson == pytest.approx(3 / math.sqrt(12) / 2)


def test_structure_compares_cosines_between_items() -> None:
    # truth: 0.6 (items 0, 1), 0.8 (0, 2), 0 (1, 2); guess: row 1 has no direction, so all 0
    assert structure(TRUTH, GUESS) == pytest.approx((0.6 + 0.8 + 0.0) / 3)
    shown = differences(TRUTH, GUESS, np.array([2, 0]))
    np.testing.assert_allclose(shown, [[0.0, -0.8], [-0.8, 0.0]], atol=1e-12)


def test_one_guess_for_all_items_calls_them_alike() -> None:
    truth = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    # one minus the cosines 0, -1, 0; whether the one guess is a row of zeros or not
    for guess in (np.zeros((3, 2)), np.ones((3, 2))):
        assert structure(truth, guess) == pytest.approx((1 + 2 + 1) / 3)


def test_structure_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    truth, guess = generator.normal(size=(2, 11, 4))
    whole = structure(truth, guess)
    monkeypatch.setattr(measures, "ROWS_AT_ONCE", 4)
    assert structure(truth, guess) == pytest.approx(whole, abs=1e-12)
    every = np.abs(differences(truth, guess, np.arange(11)))
    assert whole == pytest.approx(every.sum() / (11 * 10))


def test_leakage_from_nothing_to_all() -> None:
    floor, shuffled = Measures(2.0, 1.0, 0.0, 0.0, 0.9), Measures(2.0, 1.0, 0.0, 0.0, 0.4)
    assert leakage(Measures(0, 0, 1.0, 1.0, 0), floor, shuffled) == Measures(1, 1, 1, 1, 1)
    assert leakage(shuffled, floor, shuffled) == Measures(0, 0, 0, 0, 0)
    assert leakage(Measures(3.0, 1.5, -0.1, 0.0, 0.6), floor, shuffled).mse == -0.5
