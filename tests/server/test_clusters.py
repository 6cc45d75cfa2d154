"""Clusters of items and the group of a round, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.core.types import ITEMS, Initializer
from tacit.errors import TacitError
from tacit.parts.clusters import ClusterMean, cluster_items, elbow, likeness
from tacit.parts.contrast import LABEL, SAMPLE


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_elbow_is_the_point_farthest_from_the_line() -> None:
    # the line falls from 8 to 0 by 2: distances 0, 1, 4 - 1 = 3, 1.5, 0
    assert elbow(torch.tensor([8.0, 7.0, 1.0, 0.5, 0.0])) == 2
    # a late fall: above the line counts as well
    assert elbow(torch.tensor([4.0, 3.9, 3.8, 3.7, 0.0])) == 3


def test_a_flat_line_or_one_user_has_its_elbow_at_once() -> None:
    assert elbow(torch.ones(4)) == 0
    assert elbow(torch.ones(1)) == 0


def test_likeness_sums_cosines_item_by_item() -> None:
    rows = torch.tensor(
        [[[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 5.0]], [[-1.0, 0.0], [3.0, 0.0]]]
    )
    assert likeness(rows, rows[0]).tolist() == pytest.approx([2.0, 1 + 0.5**0.5, -1.0])
    assert likeness(rows, rows[2]).tolist() == pytest.approx([-1.0, -(0.5**0.5), 2.0])


def test_lloyd_finds_blobs() -> None:
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)) * 0.01
    points[20:] += 5.0
    for seed in range(5):
        label = cluster_items(points, 2, 20, chance(seed))
        assert label[:20].unique().tolist() != label[20:].unique().tolist()
        assert len(label.unique()) == 2
        assert label.min() == 1


def test_lloyd_moves_centres_to_means() -> None:
    """Both first centres in one blob: only by moving can they part."""
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    found = {tuple(cluster_items(points, 2, 20, chance(seed)).tolist()) for seed in range(20)}
    assert {frozenset(labels[:2]) for labels in found} == {frozenset({1}), frozenset({2})}
    assert all(labels[2] == labels[3] != labels[0] for labels in found)


def test_more_clusters_than_items_give_each_item_its_own() -> None:
    assert sorted(cluster_items(torch.arange(3.0)[:, None], 9, 5, chance()).tolist()) == [1, 2, 3]


def aggregated_tables() -> torch.Tensor:
    """Users 0, 2, 4 are alike, 1, 3, 5, 6, 7 are all different from them and unlike each other."""
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(8, 6, 5, generator=generator, dtype=torch.float64)
    table[2] = table[0] + 0.01 * table[2]
    table[4] = table[0] + 0.01 * table[4]
    return table


def test_the_group_gets_its_mean_and_is_made_of_alike_users() -> None:
    table = aggregated_tables()
    shared = {ITEMS: table[0], LABEL: torch.zeros(6)}
    seen = set()
    for seed in range(30):
        found = ClusterMean(clusters=1).aggregate_tables(table, shared, chance(seed))
        assert found.replaced_Q is not None
        assert found.table_QID is not None
        group = found.replaced_Q.tolist()
        assert torch.allclose(found.table_QID[0], table[group].mean(0), rtol=0, atol=1e-12)
        assert found.table_QID.shape == (len(group), 6, 5)
        if {0, 2, 4} & set(group[:1]):  # the drawn user comes first: nobody is more like it
            assert set(group[:3]) == {0, 2, 4}
        seen.add(group[0])
    assert len(seen) > 4  # users are drawn, not always the same


def test_labels_sample_and_mean_table() -> None:
    table = aggregated_tables()
    rule = ClusterMean(clusters=2, sample=3)
    distribution = Initializer((6, 5))
    assert {name: init.shape for name, init in rule.shared(distribution).items()} == {
        LABEL: (6,),
        SAMPLE: (3,),
    }
    shared = {ITEMS: table[0], LABEL: torch.zeros(6), SAMPLE: torch.zeros(3)}
    found = rule.aggregate_tables(table, shared, chance()).shared
    assert torch.allclose(found[ITEMS], table.mean(0), rtol=0, atol=1e-12)
    assert set(found[LABEL].tolist()) <= {1.0, 2.0}
    assert len(set(found[SAMPLE].tolist())) == 3
    other = rule.aggregate_tables(table, shared, chance(1)).shared
    assert not torch.equal(found[SAMPLE], other[SAMPLE])


def test_a_sample_of_the_whole_catalogue_is_no_sample() -> None:
    assert SAMPLE not in ClusterMean(sample=6).shared(Initializer((6, 5)))
    for rule, numbers in ((ClusterMean(), 6 + 30), (ClusterMean(sample=4), 6 + 4 + 30)):
        received = rule.downloads(Initializer((6, 5))).values()
        assert sum(init.count for init in received) == numbers


def test_equal_tables_stay_to_the_last_bit() -> None:
    table = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    found = ClusterMean(clusters=2).aggregate_tables(
        table.expand(7, -1, -1).clone(), {ITEMS: table, LABEL: torch.zeros(6)}, chance()
    )
    assert torch.equal(found.shared[ITEMS], table)
    assert found.table_QID is not None
    assert torch.equal(found.table_QID[0], table)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(TacitError, match=r"server\.clusters is 0"):
        ClusterMean(clusters=0)
    with pytest.raises(TacitError, match=r"server\.sample is 1"):
        ClusterMean(sample=1)
