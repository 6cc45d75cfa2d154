"""GPFedRec's rule: the pull by hand, how the guide begins, and what is left without a pull."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import newcomer_scores
from tacit.engines.participation import Participation
from tacit.engines.scoring import Scorer
from tacit.errors import TacitError
from tacit.methods import gpfedrec
from tacit.parts.clusters import ClusterMean
from tacit.parts.graph import GraphMean
from tacit.parts.server import Mean
from tacit.parts.sync import GUIDE, Proximal, Replace
from tacit.testing.play import algorithm_for, trace
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(), CLEAN).train
EVERYBODY = Participation()


def small(strength: float = 1.0):  # type: ignore[no-untyped-def]
    method = gpfedrec(dim=6, rate=0.1, per_item=2.0, strength=strength)
    return replace(method, local=replace(method.local, batch=16))


def test_the_pull_by_hand() -> None:
    tables = {OWN_ITEMS: torch.tensor([[1.0, 2.0], [3.0, 4.0]]), GUIDE: torch.ones(2, 2)}
    assert Proximal(strength=2.0).table_penalty(tables).item() == pytest.approx(2 * 14 / 4)


def test_the_guide_begins_as_the_global_table_and_so_does_every_round() -> None:
    start = trace(small(), TRAIN, LoopEngine(), rounds=1).start
    assert torch.equal(start[GUIDE][3], start[ITEMS])
    assert torch.equal(start[OWN_ITEMS][3], start[ITEMS])


def test_rows_that_nobody_touched_feel_the_pull() -> None:
    """Rates of zero but for the pull: one step of 2 · rate · (P − r) / (I·D) on every entry."""
    engine = LoopEngine(torch.float64)
    method = small(strength=3.0)
    still = replace(method.local, model=replace(method.local.model, rate=0.0), batch=10_000)
    algorithm = algorithm_for(replace(method, local=still), TRAIN)
    state = engine.start(algorithm, TRAIN, seed=0)
    state.private[GUIDE] += 1.0
    start = state.shared[ITEMS].clone()
    engine.round(algorithm, TRAIN, state, EVERYBODY.draw(TRAIN, 0, 1), seed=0)
    rate = 0.1 * 2.0 * TRAIN.n_items
    pulled = 2 * rate * 3.0 / start.numel()
    user = int(np.argmin(TRAIN.positives.size_U))
    moved = state.private[OWN_ITEMS][user] - start
    untouched = (moved - pulled).abs().max(1).values < 1e-12
    assert untouched.sum() > TRAIN.n_items // 2  # 3 interactions and their negatives are the rest
    assert not untouched.all()


def test_a_complete_graph_without_a_pull_is_the_plain_mean_and_an_own_table() -> None:
    """Same tables, same scorers, same scores as replacing by the mean and keeping one's copy."""
    graph = replace(small(strength=0.0), server=GraphMean(neighbours=TRAIN.n_users))
    plain = replace(graph, sync=Replace(keep=True), server=Mean())
    for engine in (LoopEngine(torch.float64), CohortEngine(torch.float64, block=7)):
        one = trace(graph, TRAIN, engine, participation=EVERYBODY)
        two = trace(plain, TRAIN, engine, participation=EVERYBODY)
        for name in two.end:
            assert torch.allclose(one.end[name], two.end[name], rtol=0, atol=1e-10), name
        people = np.arange(TRAIN.n_users)
        found = Scorer(algorithm_for(graph, TRAIN), one.state)(people)
        expected = Scorer(algorithm_for(plain, TRAIN), two.state)(people)
        assert np.abs(found - expected).max() < 1e-10


def test_guides_are_of_the_tables_just_sent() -> None:
    end = trace(small(), TRAIN, LoopEngine(torch.float64), participation=EVERYBODY, rounds=1).end
    rule = GraphMean()
    own = end[OWN_ITEMS].flatten(1)
    expected = rule.weights(rule.similarity_of(own)) @ own
    assert torch.allclose(end[GUIDE].flatten(1), expected, rtol=0, atol=1e-10)
    assert torch.allclose(end[ITEMS], end[GUIDE].mean(0), rtol=0, atol=1e-10)


def test_a_newcomer_begins_with_the_global_table_of_today() -> None:
    """With steps of zero it ranks with exactly that table, and its guide is that table too: a pull
    alone moves nothing."""
    method = small()
    still = replace(method.local.model, rate=0.0)
    pulled = replace(method, local=replace(method.local, model=still, items=still))
    state = trace(pulled, TRAIN, LoopEngine(torch.float64), rounds=1).state
    algorithm = algorithm_for(pulled, TRAIN)
    shared = {ITEMS: state.shared[ITEMS] + 1.0}
    found = newcomer_scores(algorithm, shared, History(np.array([1])), name=5, seed=0, rounds=1)
    first = LoopEngine(torch.float64).start(algorithm, newcomer_view(5), seed=0)
    p = {name: value[0] for name, value in first.private.items()}
    assert torch.equal(p[GUIDE], state.shared[ITEMS])  # what it would be without today's table
    expected = algorithm.method.backbone.score(p, shared[ITEMS])
    assert np.abs(found - expected.numpy()).max() < 1e-12


def newcomer_view(name: int) -> TrainView:
    lists = Lists(np.array([0, 1]), np.array([1]))
    return TrainView(TRAIN.n_items, lists, np.array([name], dtype=np.uint64), Lists.empty(1))


def test_it_needs_the_server_that_makes_guides() -> None:
    with pytest.raises(TacitError, match=r"Proximal looks at 'items.guide', which ClusterMean"):
        algorithm_for(replace(small(), server=ClusterMean()), TRAIN)
    with pytest.raises(TacitError):
        algorithm_for(replace(small(), server=Mean()), TRAIN)


def test_traffic() -> None:
    algorithm = algorithm_for(gpfedrec(dim=6), TRAIN)
    table = TRAIN.n_items * 6
    assert (algorithm.floats_up, algorithm.floats_down) == (table, 2 * table)
