"""A person who joins after training: only what is private moves, and the history speaks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from tacit import streams
from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.types import Params, Task
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import custom_newcomer_scores, newcomer_scores
from tacit.engines.participation import Participation
from tacit.engines.select import scorer_of
from tacit.engines.state import initial_state
from tacit.experiment.resolve import resolve
from tacit.methods.fednext import FedNext
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import checkerboard

METHODS = ("fedmf", "pfedrec", "fedncf")
ROUNDS = {"fedmf": 25, "pfedrec": 25, "fedncf": 1}


@cache
def trained(name: str) -> tuple[ComposedAlgorithm, Params, np.ndarray]:
    """An algorithm, its shared parameters after training, and the colour of each item."""
    dataset = checkerboard(n_users=60, n_items=30)
    train = split_dataset(dataset, CLEAN).train
    method = resolve(name, sets=["backbone.dim=8"]).method
    algorithm, engine = algorithm_for(method, train), CohortEngine()
    state = engine.start(algorithm, train, 0)
    for number in range(1, ROUNDS[name] + 1):
        engine.round(algorithm, train, state, Participation().draw(train, 0, number), 0)
    colour_I = np.array([int(item[1:]) % 2 for item in dataset.interactions.items])
    return algorithm, state.shared, colour_I


def scores(name: str, history: np.ndarray, key: int = 7, seed: int = 0) -> np.ndarray:
    algorithm, shared, _ = trained(name)
    return newcomer_scores(algorithm, shared, History(history), name=key, seed=seed, rounds=20)


@pytest.mark.parametrize("name", ["fedmf", "pfedrec"])
@pytest.mark.parametrize("colour", [0, 1])
def test_a_newcomer_gets_items_of_its_own_taste(name: str, colour: int) -> None:
    colour_I = trained(name)[2]
    mine, others = np.flatnonzero(colour_I == colour), np.flatnonzero(colour_I != colour)
    history, unknown = mine[:8], mine[8:]
    found = scores(name, history)
    # a few unknown items of the own taste are drawn as negatives, so not all of them can lead
    assert found[unknown].max() > found[others].max()
    assert found[unknown].mean() > found[others].mean()


@pytest.mark.parametrize("name", METHODS)
def test_shared_parameters_stay_untouched(name: str) -> None:
    shared = trained(name)[1]
    before = {parameter: value.clone() for parameter, value in shared.items()}
    scores(name, np.array([1, 2, 3]))
    for parameter, value in shared.items():
        assert value.equal(before[parameter])


def test_a_method_that_ranks_globally_scores_with_the_global_table() -> None:
    """FedMF's logits are vector · row: with 8 columns they lie in the span of the table."""
    _, shared, _ = trained("fedmf")
    table = shared["items"].double().numpy()
    found = scores("fedmf", np.array([0, 4])).astype(np.float64)
    vector, *_ = np.linalg.lstsq(table, found, rcond=None)
    assert np.allclose(table @ vector, found, atol=1e-3 * np.abs(found).max())


def test_a_newcomer_begins_with_the_first_head_and_the_global_table() -> None:
    """With rates of zero nothing moves: logits are those of the first head on the given rows."""
    train = split_dataset(checkerboard(n_users=10, n_items=12), CLEAN).train
    sets = ["backbone.dim=8", "local.model.rate=0", "local.items.rate=0"]
    algorithm = algorithm_for(resolve("pfedrec", sets=sets).method, train)
    first = initial_state(algorithm, train, 3)
    table = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    found = newcomer_scores(
        algorithm, {"items": table}, History(np.arange(2)), name=7, seed=3, rounds=2
    )
    expected = table @ first.private["head.w"][0] + first.private["head.b"][0]
    assert np.allclose(found, expected.numpy(), rtol=0, atol=1e-6)


def test_a_newcomer_of_fedmf_is_a_regression_on_rows_that_stand_still() -> None:
    """Two rounds in batches of one, redone in numpy: only the person's vector moves."""
    items, history, key = 12, np.array([2, 5, 9]), 7
    sets = ["backbone.dim=3", "local.batch=1"]
    algorithm = compose(resolve("fedmf", sets=sets).method, Task(1, items))
    table = torch.randn(items, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = newcomer_scores(
        algorithm, {"items": table}, History(history), name=key, seed=4, rounds=2
    )
    keys = np.array([key], dtype=np.uint64)
    train = TrainView(items, Lists(np.array([0, 3]), history), keys, Lists.empty(1))
    vector = 0.1 * streams.normals(4, streams.INIT, streams.name_of("user"), keys, 3)[0]
    for number in (1, 2):
        drawn = draw_samples(train, 0, Sampling(), seed=4, round_number=number, epoch=0)
        for item, label in zip(*drawn, strict=True):
            row = table[item].numpy()
            vector = vector - 0.1 * (1 / (1 + np.exp(-row @ vector)) - label) * row
    assert np.allclose(found, table.numpy() @ vector, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_person_gets_the_same_list(name: str) -> None:
    history = np.array([1, 5, 6])
    assert np.array_equal(scores(name, history), scores(name, history))
    assert not np.array_equal(scores(name, history), scores(name, history, seed=1))
    assert not np.array_equal(scores(name, history), scores(name, np.array([1, 5])))


def test_a_history_of_the_whole_catalogue_is_no_trouble() -> None:
    found = scores("pfedrec", np.arange(30))
    assert np.isfinite(found).all()


def test_an_isolated_method_learns_from_the_history_alone() -> None:
    train = split_dataset(checkerboard(n_users=10, n_items=12), CLEAN).train
    algorithm = algorithm_for(resolve("local_only", sets=["backbone.dim=8"]).method, train)
    history = np.array([2, 3, 7])
    found = newcomer_scores(algorithm, {}, History(history), name=7, seed=0, rounds=20)
    others = np.setdiff1d(np.arange(12), history)
    assert found[history].min() > found[others].max()


@pytest.mark.parametrize("latest", ["first_row", "last_row"])
def test_a_newcomer_with_tied_times_is_ranked_as_a_known_user_is(latest: str) -> None:
    """A history runs in its own order: what is tied in time stands as the rule of ties put it."""
    draw = np.random.default_rng(0)
    items = np.concatenate([draw.permutation(9)[:5] for _ in range(6)])
    train = TrainView(
        9,
        Lists(np.arange(7) * 5, items),
        np.arange(6, dtype=np.uint64),
        Lists.empty(6),
        time_N=draw.integers(2, size=30),
        latest_of_tied=latest,  # type: ignore[arg-type]
    )
    algorithm = FedNext().algorithm(Task.of(train))
    engine = LoopEngine(torch.float64)
    state = engine.start(algorithm, train, 0)
    engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
    known_UI = scorer_of(algorithm, train, state, 0)(np.arange(6))
    for user in range(6):
        history = train.history(user)
        own = TrainView.of_one(history, 9, user).history(0)
        assert own.item_H.tolist() == history.item_H.tolist()
        assert own.time_H is not None
        assert history.time_H is not None
        assert own.time_H.tolist() == history.time_H.tolist()
        found_I = custom_newcomer_scores(
            algorithm, state.shared, history, name=user, seed=0, rounds=0
        )
        assert np.allclose(found_I, known_UI[user], rtol=0, atol=1e-12)
