"""Sums over neighbours against the matrix product that they are."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.parts.graph import mean_changes, products

CHANCE = np.random.default_rng(0)


def dataset(users: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    linked = CHANCE.random((users, users)) < 0.5
    np.fill_diagonal(linked, True)
    return linked, CHANCE.standard_normal((users, columns)), CHANCE.standard_normal(columns)


@pytest.mark.parametrize("users", [1, 6, 28, 61])  # less than a group, whole groups, and a rest
@pytest.mark.parametrize("columns", [1, 64, 100])
@pytest.mark.parametrize("layers", [1, 3])
def test_they_are_products_with_the_graph(users: int, columns: int, layers: int) -> None:
    linked, table, start = dataset(users, columns)
    weight = np.linalg.matrix_power(linked / linked.sum(1, keepdims=True), layers)
    guide = np.zeros_like(table)
    mean = mean_changes(linked, np.arange(users), table, start, layers, guide)
    assert np.allclose(guide, start + weight @ (table - start), rtol=0, atol=1e-12)
    assert np.allclose(mean, guide.mean(0), rtol=0, atol=1e-12)


def test_who_does_not_send_is_neither_read_nor_written() -> None:
    linked, table, start = dataset(3, 5)
    apart = np.full((7, 5), np.nan)
    who = np.array([5, 0, 2])
    apart[who] = table
    guide, expected = np.full((7, 5), 9.0), np.zeros((3, 5))
    mean = mean_changes(linked, who, apart, start, 1, guide)
    assert np.array_equal(mean, mean_changes(linked, np.arange(3), table, start, 1, expected))
    assert np.array_equal(guide[who], expected)
    assert (guide[[1, 3, 4, 6]] == 9.0).all()


def test_products_of_many_columns() -> None:
    table = CHANCE.standard_normal((6, 9000))
    who = np.array([4, 1, 3])
    assert np.allclose(products(table, who), table[who] @ table[who].T, rtol=0, atol=1e-9)
