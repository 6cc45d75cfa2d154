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


# How much long histories and often-taken items count.


def played(method: FedEase, train: TrainView) -> dict[str, torch.Tensor]:
    engine = CustomEngine(torch.float64)
    state = engine.start(method.algorithm(Task.of(train)), train, seed=0)
    participants = Participation().draw(train, 0, 1)
    engine.round(method.algorithm(Task.of(train)), train, state, participants, seed=0)
    return state.shared


def three_people() -> TrainView:
    """{0, 1}, {1, 2} and {1}."""
    lists = Lists.from_pairs(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 1]), n_lists=3)
    return TrainView(3, lists, np.array([1, 2, 3], np.uint64), Lists.empty(3))


def test_rows_over_a_power_of_their_length_by_hand() -> None:
    """With a power of 1/2 people with two items count half, with one of 1 a quarter."""
    half = played(FedEase(ridges=(1.0,), row_power=0.5), three_people())["gram"]
    assert half.tolist() == [[0.5, 0.5, 0.0], [0.5, 2.0, 0.5], [0.0, 0.5, 0.5]]
    whole = played(FedEase(ridges=(1.0,), row_power=1.0), three_people())["gram"]
    assert whole.tolist() == [[0.25, 0.25, 0.0], [0.25, 1.5, 0.25], [0.0, 0.25, 0.25]]
    norm = played(FedEase(ridges=(1.0,), scale="norm"), three_people())["gram"]
    assert norm.tolist() == half.tolist()


def test_dropout_and_columns_by_hand() -> None:
    """G = [[4, 1], [1, 1]], p = 1/2 and a ridge of 1: [[9, 1], [1, 3]] has the inverse
    [[3, -1], [-1, 9]] / 26, so B has 1/9 and 1/3; columns are then over 4^(1/2) and 1."""
    gram_II = torch.tensor([[4.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    before = {"gram": torch.zeros_like(gram_II), "weight": torch.zeros_like(gram_II)}
    method = FedEase(ridges=(1.0,), dropout=0.5, column_power=0.5)
    weight_II = method.step(before, {"gram": gram_II}, 2, 1)["weight"]
    expected = torch.tensor([[0.0, 1 / 9], [1 / 6, 0.0]], dtype=torch.float64)
    assert torch.allclose(weight_II, expected)


def test_dropout_is_ease_on_columns_over_the_roots_of_their_counts() -> None:
    """With scores multiplied back: B = D^-1/2 B' D^1/2, where B' is EASE of X D^-1/2."""
    train = split_dataset(ragged(), CLEAN).train
    row_UI = np.zeros((train.n_users, train.n_items))
    row_UI[train.positives.list_N, train.positives.item_N] = 1.0
    seen = np.flatnonzero(row_UI.sum(0))
    root_I = np.sqrt(row_UI.sum(0)[seen])
    scaled_UI = row_UI[:, seen] / root_I
    inverse_II = np.linalg.inv(scaled_UI.T @ scaled_UI + np.eye(len(seen)))
    expected_II = -inverse_II / inverse_II.diagonal() * root_I / root_I[:, None]
    np.fill_diagonal(expected_II, 0.0)
    found = played(FedEase(ridges=(1e-9,), dropout=0.5), train)["weight"].numpy()
    assert np.allclose(found[np.ix_(seen, seen)], expected_II, atol=1e-6)


@pytest.mark.parametrize(
    "powers", [{"row_power": 0.25}, {"dropout": 0.4}, {"column_power": 0.3, "row_power": 1.0}]
)
def test_scaled_sums_are_scaled_ease(powers: dict[str, float]) -> None:
    train = split_dataset(ragged(), CLEAN).train
    expected_II = Ease((5.0,), **powers).fit(train, 0, 0).weight_II
    found = played(FedEase((5.0,), **powers), train)["weight"]
    plain_II = Ease((5.0,)).fit(train, 0, 0).weight_II
    assert np.allclose(found.numpy(), expected_II, atol=1e-10)
    assert not np.allclose(expected_II, plain_II, atol=1e-3)


def test_a_row_power_of_a_half_bounds_what_one_client_adds() -> None:
    """n^(1 - 2 power): from 1/2 on never more than 1, whatever the length; below it nobody says
    so."""
    for power, bounded in ((0.0, False), (0.49, False), (0.5, True), (0.8, True)):
        method = FedEase((1.0,), row_power=power)
        assert (method.bound is not None) == bounded
        norms = []
        for size in (1, 2, 30):
            lists = Lists(np.array([0, size]), np.arange(size))
            train = TrainView(40, lists, np.ones(1, np.uint64), Lists.empty(1))
            norms.append(float(played(method, train)["gram"].norm()))
        assert norms == pytest.approx([size ** (1 - 2 * power) for size in (1, 2, 30)])
        assert (max(norms) <= 1 + 1e-12) == bounded


def test_bad_powers_are_one_sentence() -> None:
    for name, setting, said in (
        ("fedease", ["row_power=1.5"], "row_power is 1.5; it must be from 0 to 1."),
        ("ease", ["dropout=1.0"], "dropout is 1.0; it must be from 0 to below 1."),
        ("fedease", ["column_power=2.0"], "column_power is 2.0; it must be from -1 to 1."),
        ("fedease", ["scale=norm", "row_power=0.5"], "which is a row_power of 0.5"),
        ("fedspectral", ["degree_power=-0.5"], "degree_power is -0.5; it must be from 0 to 1."),
        ("fedspectral", ["scale=norm", "row_power=0.25"], "which is a row_power of 0.5"),
    ):
        with pytest.raises(TacitError, match=said):
            resolve(name, sets=setting)
