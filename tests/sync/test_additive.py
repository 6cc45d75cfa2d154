"""FedRAP's rule: hand-computed terms, its schedules, and what it is without a common table."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import newcomer_scores
from tacit.engines.participation import everybody
from tacit.engines.scoring import Scorer
from tacit.errors import TacitError
from tacit.methods import fedrap
from tacit.parts.sync import Additive, Isolated
from tacit.testing.play import algorithm_for, trace, trace_of
from tacit.testing.synthetic import ragged

OWN = torch.tensor([[1.0, 0.0], [3.0, 3.0], [9.0, 9.0]])
COMMON = torch.tensor([[0.0, -2.0], [3.0, 1.0], [0.0, 0.0]])
ROWS = {OWN_ITEMS: OWN, ITEMS: COMMON}
WEIGHT = torch.tensor([0.5, 0.5, 0.0])  # the third sample is padding


def test_the_two_terms_by_hand() -> None:
    # (D - C)²: (1 + 4) / 2 and (0 + 4) / 2, mean 2.25; |C|: 2 / 2 and 4 / 2, mean 1.5
    found = Additive(apart=0.1, sparse=0.01, schedule="fixed").penalty(ROWS, WEIGHT, 1)
    assert found.item() == pytest.approx(-0.1 * 2.25 + 0.01 * 1.5)


def test_the_curriculum_multiplies_both() -> None:
    found = Additive(apart=0.1, sparse=0.01).penalty(ROWS, WEIGHT, 11)
    assert found.item() == pytest.approx(math.tanh(1.0) * (-0.1 * 2.25 + 0.01 * 1.5))


def test_without_a_norm_only_the_distance_counts() -> None:
    found = Additive(apart=0.1, sparse=0.01, schedule="fixed", norm="none")
    assert found.penalty(ROWS, WEIGHT, 1).item() == pytest.approx(-0.225)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("tanh", [0.0, math.tanh(0.1), math.tanh(0.2), math.tanh(10.0)]),
        ("fixed", [1.0, 1.0, 1.0, 1.0]),
        ("cumulative", [1.0, 0.0, 0.0, 0.0]),
        ("none", [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_schedules(schedule: str, expected: list[float]) -> None:
    rule = Additive(schedule=schedule)  # type: ignore[arg-type]
    assert [rule.factor(n) for n in (1, 2, 3, 101)] == pytest.approx(expected)


def test_the_cumulative_quirk_is_the_product_it_stands_for() -> None:
    """Round 1 runs with the constants; then they are multiplied by tanh(t / 10), t = 0, 1, ..."""
    coefficient, found = 1.0, []
    for played in range(4):
        found.append(coefficient)
        coefficient *= math.tanh(played / 10)
    assert [Additive(schedule="cumulative").factor(n) for n in (1, 2, 3, 4)] == found


def test_negative_weights_are_refused() -> None:
    with pytest.raises(TacitError, match=r"sync\.apart is -1"):
        Additive(apart=-1.0)


def test_with_a_common_table_frozen_at_zero_it_is_training_alone() -> None:
    train = split_dataset(ragged(), CLEAN).train
    method = replace(fedrap(dim=4, rate=0.1, item_rate=5.0), sync=Additive(0.0, 0.0))
    engine = LoopEngine(torch.float64)
    summed = replace(algorithm_for(method, train), frozen=frozenset({ITEMS}))
    alone = algorithm_for(replace(method, sync=Isolated()), train)
    states = [engine.start(algorithm, train, seed=0) for algorithm in (summed, alone)]
    states[0].shared[ITEMS].zero_()
    states[1].private[OWN_ITEMS].copy_(states[0].private[OWN_ITEMS])
    first = states[1].private[OWN_ITEMS].clone()
    for _ in range(3):
        for algorithm, state in zip((summed, alone), states, strict=True):
            engine.round(algorithm, train, state, everybody(train), seed=0)
    assert not states[0].shared[ITEMS].any()
    assert not torch.equal(states[1].private[OWN_ITEMS], first)
    for name in (OWN_ITEMS, "head.w", "head.b"):
        assert torch.equal(states[0].private[name], states[1].private[name])


def test_a_common_table_that_moves_changes_the_personal_ones() -> None:
    train = split_dataset(ragged(), CLEAN).train
    method = replace(fedrap(dim=4, rate=0.1, item_rate=5.0), sync=Additive(0.0, 0.0))
    free = trace(method, train, LoopEngine(torch.float64))
    still = replace(algorithm_for(method, train), frozen=frozenset({ITEMS}))
    held = trace_of(still, train, LoopEngine(torch.float64))
    assert free.change(ITEMS) > 0.01
    assert held.change(ITEMS) == 0.0
    assert not torch.equal(free.end[OWN_ITEMS], held.end[OWN_ITEMS])


def test_clients_rank_with_their_own_rows_and_the_new_common_ones() -> None:
    train = split_dataset(ragged(), CLEAN).train
    method = fedrap(dim=4, rate=0.1, item_rate=5.0)
    end = trace(method, train, LoopEngine(torch.float64), rounds=2).state
    found = Scorer(algorithm_for(method, train), end)(np.array([3]))[0]
    row_ID = end.private[OWN_ITEMS][3] + end.shared[ITEMS]
    expected = row_ID @ end.private["head.w"][3] + end.private["head.b"][3]
    assert np.allclose(found, expected.numpy(), rtol=0, atol=1e-12)


def test_a_newcomer_does_not_count_the_common_table_twice() -> None:
    train = split_dataset(ragged(), CLEAN).train
    method = fedrap(dim=4, rate=0.0, item_rate=0.0)
    end = trace(method, train, LoopEngine(torch.float64), rounds=1).state
    algorithm = algorithm_for(method, train)
    shared = {ITEMS: end.shared[ITEMS] + 100.0}
    found = newcomer_scores(algorithm, shared, History(np.array([1])), name=5, seed=0, rounds=1)
    row_ID = end.private[OWN_ITEMS][0] + shared[ITEMS]
    expected = row_ID @ end.private["head.w"][0] + end.private["head.b"][0]
    assert np.allclose(found, expected.numpy(), rtol=0, atol=1e-9)
