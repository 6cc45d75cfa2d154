"""Aggregation in place writes what aggregation over copies gives back, and to nobody else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.core.capabilities import aggregates_in_place
from tacit.core.parts import TableRule
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.parts.clusters import ClusterMean
from tacit.parts.contrast import LABEL, SAMPLE
from tacit.parts.graph import GraphMean
from tacit.parts.sync import GUIDE

RULES = [GraphMean(), GraphMean(neighbours=2, layers=2), ClusterMean(clusters=3, sample=5)]


@pytest.mark.parametrize("rule", RULES, ids=("graph", "nearest", "clusters"))
def test_in_place_is_the_same(rule: TableRule) -> None:
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(9, 8, 3, generator=generator, dtype=torch.float64)
    shared = {ITEMS: own[0] + 1, LABEL: torch.zeros(8), SAMPLE: torch.zeros(5)}
    users = torch.tensor([7, 0, 5, 2, 8])
    aggregated = rule.aggregate_tables(own[users], shared, np.random.default_rng(3))
    expected = {OWN_ITEMS: own.clone(), GUIDE: torch.full_like(own, 4.0)}
    for name, value in aggregated.private.items():
        expected[name][users] = value
    if aggregated.replaced_Q is not None and aggregated.table_QID is not None:
        expected[OWN_ITEMS][users[aggregated.replaced_Q]] = aggregated.table_QID
    found = {OWN_ITEMS: own.clone(), GUIDE: torch.full_like(own, 4.0)}
    assert aggregates_in_place(rule)
    parameters = rule.aggregate_in_place(found, users, shared, np.random.default_rng(3))
    for name, value in expected.items():
        assert torch.equal(found[name], value)
    moved = (found[OWN_ITEMS] != own) | (found[GUIDE] != 4.0)
    assert 0 < moved.flatten(1).any(1).sum() <= len(users)
    assert parameters.keys() == aggregated.shared.keys()
    for name, value in aggregated.shared.items():
        assert torch.equal(parameters[name], value)
