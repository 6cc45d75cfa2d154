"""Neighbours by hand, and the same in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tacit.parts.cold import simple as nearest
from tacit.parts.cold.simple import Nearest

FEATURE = torch.tensor([[1.0, 0.0], [10.0, 10.0], [0.0, 2.0], [-1.0, 0.0]])
TABLE = torch.tensor([[1.0, 0.0], [2.0, 4.0], [4.0, 0.0], [8.0, 8.0]])


@pytest.mark.parametrize(
    ("neighbours", "row"),
    # cosines of (2, 1): 0.894, 0.949, 0.447, -0.894
    [(1, [2.0, 4.0]), (2, [1.5, 2.0]), (3, [7 / 3, 4 / 3]), (4, [3.75, 3.0]), (9, [3.75, 3.0])],
)
def test_by_hand(neighbours: int, row: list[float]) -> None:
    part = Nearest(neighbours=neighbours)
    p = part.fit({}, TABLE, FEATURE, 1, np.random.default_rng(0))
    found = part.generate(p, torch.tensor([[2.0, 1.0]]), torch.zeros(1, 0, 2))
    assert found[0].tolist() == pytest.approx(row)


def test_blocks_change_nothing(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = toy.rows(Nearest(), fits=1)
    monkeypatch.setattr(nearest, "_ENTRIES", 7 * len(toy.warm_WD))  # blocks of 7 items, then 2
    torch.testing.assert_close(toy.rows(Nearest(), fits=1), whole)


def test_the_table_kept_is_a_copy() -> None:
    table = TABLE.clone()
    p = Nearest().fit({}, table, FEATURE, 1, np.random.default_rng(0))
    table.zero_()
    assert torch.equal(p["warm.row"], TABLE)
