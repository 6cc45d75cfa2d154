"""FedSpectral against arithmetic by hand, and against the singular vectors it is after."""

import os
from functools import partial

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.types import Task
from tacit.data.views import Lists, TrainView
from tacit.engines.clients import sample_of
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.methods import FedSpectral, PureSvd
from tacit.privacy.guarantee import PrivacyRequest


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


@pytest.mark.parametrize("data", ["planted", pytest.param("ml-100k", marks=pytest.mark.slow)])
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


# Degree-normalised rows and columns.


def test_counts_come_first_and_weigh_items() -> None:
    """Users {0, 1}, {1, 2} and {1}: counts 1, 3, 1. In the second round a client with the items 0
    and 1 answers w (w x V), with w = count^-1/2, over its length."""
    lists = Lists.from_pairs(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 1]), n_lists=3)
    train = TrainView(3, lists, np.array([1, 2, 3], np.uint64), Lists.empty(3))
    method = FedSpectral(width=1, row_power=0.5, degree_power=0.5)
    algorithm = method.algorithm(Task.of(train))
    engine = CustomEngine(torch.float64)
    state = engine.start(algorithm, train, seed=0)
    before = state.shared["basis"].clone()
    engine.round(algorithm, train, state, Participation().draw(train, 0, 1), seed=0)
    assert state.shared["counts"].tolist() == [1.0, 3.0, 1.0]
    assert torch.equal(state.shared["basis"], before)
    received = {
        "basis": torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64),
        "counts": torch.tensor([1.0, 4.0, 1.0], dtype=torch.float64),
    }
    _, upload = method.update(received, {}, client([0, 1]), 2)
    # w = (1, 1/2, 1): the head is 1 + 5 = 6, over the length 2
    assert upload["basis"].flatten().tolist() == [3.0, 1.5]
    # ranked by V (w x V) / w
    assert method.score(received, {}, client([0, 1])).tolist() == [6.0, 120.0, 600.0]
    parts_HI = method.contributions(received, client([0, 1]))
    assert parts_HI.tolist() == [[1.0, 20.0, 100.0], [5.0, 100.0, 500.0]]


@pytest.mark.parametrize(("row_power", "degree_power"), [(0.5, 0.0), (0.25, 0.25), (0.5, 0.5)])
def test_many_rounds_are_the_singular_vectors_of_the_scaled_matrix(
    row_power: float, degree_power: float
) -> None:
    train = prepared("planted").split.train
    row_UI = np.zeros((train.n_users, train.n_items))
    row_UI[train.positives.list_N, train.positives.item_N] = 1.0
    weight_I = np.maximum(row_UI.sum(0), 1.0) ** -degree_power
    scaled_UI = row_UI / np.maximum(row_UI.sum(1, keepdims=True), 1.0) ** row_power * weight_I
    right_DI = np.linalg.svd(scaled_UI, full_matrices=False)[2][:8]
    expected_UI = (row_UI * weight_I) @ right_DI.T @ right_DI / weight_I
    method = FedSpectral(8, row_power=row_power, degree_power=degree_power)
    algorithm, engine = method.algorithm(Task.of(train)), CustomEngine(torch.float64)
    state = engine.start(algorithm, train, seed=0)
    for number in range(1, 80):
        engine.round(algorithm, train, state, Participation().draw(train, 0, number), seed=0)
    found_UI = CustomScorer(algorithm, train, state)(np.arange(train.n_users))
    assert np.abs(found_UI - expected_UI).max() < 1e-4 * np.abs(expected_UI).max()


def test_counts_are_one_more_release_and_are_told() -> None:
    """The first round sends counts in the place of a basis, so that ten rounds are ten releases;
    both are in the disclosure and in the bytes, and nothing is bounded."""
    train = prepared("planted").split.train
    task = Task.of(train)
    algorithm = FedSpectral(4, degree_power=0.5).algorithm(task)
    assert algorithm.exchanges(1)[0].parameters == {"counts"}
    assert algorithm.exchanges(2)[0].parameters == {"basis"}
    assert algorithm.releases(10) == 10
    assert algorithm.bound is None
    assert FedSpectral(4, scale="norm", degree_power=0.5).algorithm(task).bound is None
    state = LoopEngine().start(algorithm, train, 0)
    sample = partial(sample_of, algorithm, train, state, 0)
    disclosure = algorithm.disclosure(sample)
    assert {one.name: one.by_history for one in disclosure.sent} == {"basis": True, "counts": True}
    assert any("how many clients have each item" in said for said in disclosure.sentences())
    width, count = 4, train.n_items
    traffic = algorithm.traffic(sample, [3, 3], width)
    assert traffic.up == width * (8 * count + count)
    with pytest.raises(TacitError, match=r"degree_power of fedspectral is 0\.5, which has"):
        FedSpectral(degree_power=0.5).protected(PrivacyRequest())
    with pytest.raises(TacitError, match="degree_power"):
        resolve("fedspectral", plugins=["private"], sets=["degree_power=0.5"])
