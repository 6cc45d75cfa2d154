"""A meeting in place writes what a meeting over copies gives back, and to nobody else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.core.parts import MeetsInPlace, TableRule
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
    meeting = rule.meet(own[users], shared, np.random.default_rng(3))
    expected = {OWN_ITEMS: own.clone(), GUIDE: torch.full_like(own, 4.0)}
    for leaf, value in meeting.private.items():
        expected[leaf][users] = value
    if meeting.replaced_Q is not None and meeting.table_QID is not None:
        expected[OWN_ITEMS][users[meeting.replaced_Q]] = meeting.table_QID
    found = {OWN_ITEMS: own.clone(), GUIDE: torch.full_like(own, 4.0)}
    assert isinstance(rule, MeetsInPlace)
    leaves = rule.meet_in_place(found, users, shared, np.random.default_rng(3))
    for leaf, value in expected.items():
        assert torch.equal(found[leaf], value)
    moved = (found[OWN_ITEMS] != own) | (found[GUIDE] != 4.0)
    assert 0 < moved.flatten(1).any(1).sum() <= len(users)
    assert leaves.keys() == meeting.shared.keys()
    for leaf, value in meeting.shared.items():
        assert torch.equal(leaves[leaf], value)
