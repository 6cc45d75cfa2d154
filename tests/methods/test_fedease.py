"""FedEase is EASE, from one sum."""

import numpy as np
import pytest
import torch

import tacit.memory as memory
from tacit.core.types import Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.methods import Ease, FedEase
from tacit.testing import ragged


def test_the_sum_is_the_gram_matrix() -> None:
    """Users {0, 1}, {1, 2} and {1}: item 1 has three users, and each pair with it one."""
    lists = Lists.from_pairs(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 1]), n_lists=3)
    train = TrainView(3, lists, np.array([1, 2, 3], np.uint64), Lists.empty(3))
    method, engine = FedEase(ridges=(1.0,)), CustomEngine()
    state = engine.start(method.algorithm(Task.of(train)), train, seed=0)
    engine.round(
        method.algorithm(Task.of(train)), train, state, Participation().draw(train, 0, 1), seed=0
    )
    assert state.shared["gram"].tolist() == [[1, 1, 0], [1, 3, 1], [0, 1, 1]]


def test_two_items_by_hand() -> None:
    """G + λI = [[3, 1], [1, 2]]: its inverse is [[2, -1], [-1, 3]] / 5, so B has 1/3 and 1/2."""
    gram_II = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    before = {"gram": torch.zeros_like(gram_II), "weight": torch.zeros_like(gram_II)}
    stepped = FedEase(ridges=(1.0,)).step(before, {"gram": gram_II}, 2, 1)
    expected = torch.tensor([[0.0, 1 / 3], [1 / 2, 0.0]], dtype=torch.float64)
    assert torch.allclose(stepped["weight"], expected)


@pytest.mark.parametrize("block", [1, 7])
def test_every_round_is_ease_with_the_next_ridge(block: int) -> None:
    train = split_dataset(ragged(), CLEAN).train
    ridges = (0.5, 5.0, 50.0)
    method, engine = FedEase(ridges), CustomEngine(torch.float64, block)
    state = engine.start(method.algorithm(Task.of(train)), train, seed=0)
    everybody = np.arange(train.n_users)
    histories = [train.history(user) for user in everybody]
    for setting in range(3):
        participants = Participation().draw(train, 0, setting + 1)
        engine.round(method.algorithm(Task.of(train)), train, state, participants, seed=0)
        expected_UI = Ease(ridges).fit(train, setting, 0).score(histories, train.user_key_U)
        found_UI = CustomScorer(method.algorithm(Task.of(train)), train, state)(everybody)
        assert np.abs(found_UI - expected_UI).max() < 1e-10


def test_the_weights_are_those_of_ease_on_planted_data() -> None:
    train = prepare(resolve("ease")).split.train
    method, engine = FedEase((20.0,)), CustomEngine(torch.float64)
    state = engine.start(method.algorithm(Task.of(train)), train, seed=0)
    engine.round(
        method.algorithm(Task.of(train)), train, state, Participation().draw(train, 0, 1), seed=0
    )
    expected_II = Ease((20.0,)).fit(train, 0, 0).weight_II
    assert np.abs(state.shared["weight"].numpy() - expected_II).max() < 1e-10


def test_a_catalogue_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables of 50 · 50: twice in float32 and three times in float64 are 160 kB; the server's
    inverse takes 60 kB more."""
    train = split_dataset(ragged(), CLEAN).train
    monkeypatch.setattr(memory, "available_bytes", lambda: 160_000 - 1)
    with pytest.raises(TacitError, match=r"for 50 items need .* thinner tables"):
        CustomEngine().start(FedEase().algorithm(Task.of(train)), train, seed=0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 160_000)
    CustomEngine().start(FedEase().algorithm(Task.of(train)), train, seed=0)
    gram_II = torch.eye(50, dtype=torch.float64)
    monkeypatch.setattr(memory, "available_bytes", lambda: 60_000 - 1)
    with pytest.raises(TacitError, match=r"for 50 items need .* use fedspectral"):
        FedEase().step({"gram": gram_II}, {"gram": gram_II}, 1, 1)


def test_a_ridge_of_zero_is_refused() -> None:
    with pytest.raises(TacitError, match="all above 0"):
        resolve("fedease", sets=["ridges=[0.0, 5.0]"])
