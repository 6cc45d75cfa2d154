"""A graph of three users, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.core.types import ITEMS
from tacit.errors import TacitError
from tacit.parts.graph import GraphMean
from tacit.parts.sync import GUIDE

# cosines: 0-1: 0.8, 0-2: 0, 1-2: 0.6; mean of all nine entries (3 + 2.8) / 9 = 0.644
TABLE = torch.tensor([[[1.0], [0.0]], [[4.0], [3.0]], [[0.0], [2.0]]], dtype=torch.float64)
START = {ITEMS: torch.tensor([[5.0], [7.0]], dtype=torch.float64)}
NOBODY = np.random.default_rng(0)


def guides(rule: GraphMean) -> tuple[list[list[float]], list[float]]:
    aggregated = rule.aggregate_tables(TABLE, START, NOBODY)
    return aggregated.private[GUIDE].flatten(1).tolist(), aggregated.shared[
        ITEMS
    ].flatten().tolist()


def close(found: list[list[float]], expected: list[list[float]]) -> bool:
    return bool(np.allclose(found, expected, rtol=0, atol=1e-12))


def test_neighbours_above_the_mean() -> None:
    found, mean = guides(GraphMean())
    assert close(found, [[2.5, 1.5], [2.5, 1.5], [0.0, 2.0]])
    assert mean == pytest.approx([5 / 3, 5 / 3])


def test_a_lower_threshold_links_more() -> None:
    found, _ = guides(GraphMean(threshold=0.5))  # 0.322: now 1 and 2 as well
    assert close(found, [[2.5, 1.5], [5 / 3, 5 / 3], [2.0, 2.5]])


def test_the_released_distance_links_the_least_alike() -> None:
    # distances: 0-1: 0.2, 0-2: 1, 1-2: 0.4, itself 0; mean 3.2 / 9 = 0.356
    found, mean = guides(GraphMean(similarity="distance"))
    assert close(found, [[0.0, 2.0], [0.0, 2.0], [2.5, 1.5]])
    assert mean == pytest.approx([2.5 / 3, 5.5 / 3])


def test_who_has_no_neighbour_has_itself() -> None:
    found, _ = guides(GraphMean(threshold=2.0))  # above 1: nobody is like anybody
    assert close(found, TABLE.flatten(1).tolist())


def test_only_the_lonely_get_a_loop() -> None:
    found, _ = guides(GraphMean(similarity="distance", threshold=1.5))  # 0.533: only 0-2 remains
    assert close(found, [[0.0, 2.0], [4.0, 3.0], [1.0, 0.0]])


def test_most_similar_neighbours() -> None:
    found, _ = guides(GraphMean(neighbours=2))  # itself, and one other
    assert close(found, [[2.5, 1.5], [2.5, 1.5], [2.0, 2.5]])


def test_a_complete_graph_is_the_mean_for_everybody() -> None:
    found, mean = guides(GraphMean(neighbours=9))
    assert close(found, [[5 / 3, 5 / 3]] * 3)
    assert mean == pytest.approx([5 / 3, 5 / 3])


def test_two_layers_pass_the_message_twice() -> None:
    found, _ = guides(GraphMean(threshold=0.5, layers=2))
    first = [[2.5, 1.5], [5 / 3, 5 / 3], [2.0, 2.5]]
    second = [
        [(first[0][k] + first[1][k]) / 2 for k in range(2)],
        [sum(row[k] for row in first) / 3 for k in range(2)],
        [(first[1][k] + first[2][k]) / 2 for k in range(2)],
    ]
    assert close(found, second)


def test_many_columns_are_taken_in_blocks() -> None:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(4, 700, 9, generator=generator, dtype=torch.float64)
    start = {ITEMS: torch.randn(700, 9, generator=generator, dtype=torch.float64)}
    rule = GraphMean()
    flat = table.flatten(1)
    expected = (rule.weights(rule.similarity_of(flat)) @ flat).view_as(table)
    found = rule.aggregate_tables(table, start, NOBODY)
    assert torch.allclose(found.private[GUIDE], expected, rtol=0, atol=1e-12)
    assert torch.allclose(found.shared[ITEMS], expected.mean(0), rtol=0, atol=1e-12)


def test_where_nobody_moved_nothing_moves() -> None:
    start = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    aggregated = GraphMean().aggregate_tables(
        start.expand(7, -1, -1).clone(), {ITEMS: start}, NOBODY
    )
    assert torch.equal(aggregated.shared[ITEMS], start)
    assert torch.equal(aggregated.private[GUIDE][5], start)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(TacitError, match=r"server\.neighbours is 0"):
        GraphMean(neighbours=0)
    with pytest.raises(TacitError, match=r"server\.layers is 0"):
        GraphMean(layers=0)
