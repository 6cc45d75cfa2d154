"""FedSpectral against arithmetic by hand, and against the singular vectors it is after."""

import os

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.types import Task
from tacit.data.views import Lists, TrainView
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.participation import Participation
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.methods import FedSpectral, PureSvd


def client(history: list[int]) -> ClientData:
    nothing = torch.zeros(0)
    return ClientData(
        torch.tensor(0),
        torch.tensor(history),
        torch.ones(len(history)),
        nothing.long(),
        nothing,
        nothing,
    )


def test_a_client_answers_the_sum_of_its_rows_once_for_each_item() -> None:
    basis_ID = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    _, upload = FedSpectral(width=1).update({"basis": basis_ID}, {}, client([0, 2]), 1)
    assert upload["basis"].tolist() == [[101.0, 202.0], [101.0, 202.0]]


def test_scores_use_the_leading_columns_alone() -> None:
    basis_ID = torch.tensor([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]])
    score_I = FedSpectral(width=1).score({"basis": basis_ID}, {}, client([0, 2]))
    assert score_I.tolist() == [4.0, 8.0, 12.0]


def test_the_step_puts_the_strongest_direction_first() -> None:
    """XᵀX = diag(1, 9, 4) and a basis of the first two axes, stretched: the second axis wins."""
    basis_ID = torch.tensor([[2.0, 0.0], [0.0, 5.0], [0.0, 0.0]], dtype=torch.float64)
    total_ID = torch.diag(torch.tensor([1.0, 9.0, 4.0], dtype=torch.float64)) @ basis_ID
    stepped_ID = FedSpectral(width=1).step({"basis": basis_ID}, {"basis": total_ID}, 3, 1)["basis"]
    expected = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(stepped_ID.abs(), expected)


def play(train: TrainView, width: int, rounds: int) -> State:
    engine, method = CustomEngine(torch.float64), FedSpectral(width)
    state = engine.start(method.algorithm(Task.of(train)), train, seed=0)
    for number in range(1, rounds + 1):
        engine.round(
            method.algorithm(Task.of(train)),
            train,
            state,
            Participation().draw(train, 0, number),
            seed=0,
        )
    return state


def pure_svd(train: TrainView, width: int) -> np.ndarray:
    everybody = [train.history(user) for user in range(train.n_users)]
    return PureSvd((width,)).fit(train, 0, seed=0).score(everybody, train.user_key_U)


def prepared(data: str) -> Prepared:
    if data != "planted" and "TACIT_DATA" not in os.environ:
        pytest.skip("TACIT_DATA is not set, so there is no ML-100K here")
    return prepare(resolve("popularity", data=data))


@pytest.mark.parametrize("data", ["planted", "ml-100k"])
def test_forty_rounds_are_pure_svd(data: str) -> None:
    train = prepared(data).split.train
    found = CustomScorer(
        FedSpectral(16).algorithm(Task.of(train)), train, play(train, 16, rounds=40)
    )
    score_UI = found(np.arange(train.n_users))
    assert np.abs(score_UI - pure_svd(train, 16)).max() < 1e-5


@pytest.mark.parametrize("data", ["planted", "ml-100k"])
def test_ten_rounds_rank_like_pure_svd(data: str) -> None:
    split = prepared(data).split
    width = FedSpectral().width
    expected_UI = pure_svd(split.train, width)
    found = CustomScorer(
        FedSpectral().algorithm(Task.of(split.train)),
        split.train,
        play(split.train, width, rounds=10),
    )
    wanted = metric(rank(lambda user_B: expected_UI[user_B], split.valid).full, "HR@10")
    assert abs(metric(rank(found, split.valid).full, "HR@10") - wanted) <= 0.01


def test_a_catalogue_narrower_than_the_basis() -> None:
    """Three items, two users: the whole space is the subspace, and a user's row comes back."""
    lists = Lists.from_pairs(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 2]), n_lists=3)
    train = TrainView(3, lists, np.array([1, 2, 3], np.uint64), Lists.empty(3))
    score_UI = CustomScorer(
        FedSpectral(8).algorithm(Task.of(train)), train, play(train, 8, rounds=2)
    )(np.arange(3))
    assert np.allclose(score_UI, [[1, 1, 0], [0, 1, 1], [0, 0, 1]])


def test_no_width_is_refused() -> None:
    with pytest.raises(TacitError, match="width is 0"):
        resolve("fedspectral", sets=["width=0"])
