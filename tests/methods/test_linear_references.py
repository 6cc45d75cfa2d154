"""EDLAE and SLIM, against numbers by hand and against their objectives written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import torch

from tacit.core.algorithm import Bound
from tacit.core.types import Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.engines.custom import CustomEngine
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.methods.closed_forms import Ease, FedEase
from tacit.methods.item_to_item import train_matrix
from tacit.methods.linear_references import Edlae, FedSlim, Slim, SparseItemToItem
from tacit.privacy.guarantee import PrivacyRequest
from tacit.testing import ragged

KEY = np.zeros(1, np.uint64)


def view(*histories: list[int], n_items: int) -> TrainView:
    user_N = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    lists = Lists.from_pairs(user_N, np.concatenate(histories).astype(np.int64), len(histories))
    key_U = np.arange(len(histories), dtype=np.uint64)
    return TrainView(n_items, lists, key_U, Lists.empty(len(histories)))


TWO = view([0, 1], [0], n_items=2)  # X'X = [[2, 1], [1, 1]]


def test_edlae_by_hand() -> None:
    """p = 1/2 adds the diagonal once more, and the ridge 1: [[5, 1], [1, 3]], inverse
    [[3, -1], [-1, 5]] / 14."""
    weight_II = Edlae(ridges=(1.0,), dropouts=(0.5,)).fit(TWO, 0, 0).weight_II
    assert np.allclose(weight_II, [[0, 1 / 5], [1 / 3, 0]])


def test_a_relaxed_diagonal_by_hand() -> None:
    """Penalties 3 and 2: without a constraint the diagonal is 1 - 9/14 and 1 - 10/14. At most 0.3
    binds the first column, by (1 - 0.3) 14/3, and not the second."""
    method = Edlae(ridges=(1.0,), dropouts=(0.5,), diagonals=(0.3,))
    weight_II = method.fit(TWO, 0, 0).weight_II
    assert np.allclose(weight_II, [[0.3, 2 / 14], [0.7 / 3, 4 / 14]])


def test_edlae_without_dropout_is_ease() -> None:
    train = split_dataset(ragged(), CLEAN).train
    found_II = Edlae(ridges=(7.0,), dropouts=(0.0,)).fit(train, 0, 0).weight_II
    assert np.allclose(found_II, Ease((7.0,)).fit(train, 0, 0).weight_II, atol=1e-10)


def test_without_a_constraint_it_is_a_ridge_regression() -> None:
    train = split_dataset(ragged(), CLEAN).train
    method = Edlae(ridges=(3.0,), dropouts=(0.25,), diagonals=(1.0,))
    row_UI = train_matrix(train).toarray()
    gram_II = row_UI.T @ row_UI
    expected_II = np.linalg.solve(gram_II + np.diag(gram_II.diagonal() / 3 + 3.0), gram_II)
    assert np.allclose(method.fit(train, 0, 0).weight_II, expected_II, atol=1e-10)


def test_edlae_is_what_dropout_learns() -> None:
    """The expected loss under dropout of a column's inputs, with emphasis on what was lost: drawn
    many times, its least squares have the closed form's weights."""
    generator = np.random.default_rng(0)
    row_UI = (generator.random((60, 4)) < 0.5).astype(float)
    train = view(*[np.flatnonzero(row).tolist() for row in row_UI], n_items=4)
    weight_II = Edlae(ridges=(1e-9,), dropouts=(0.4,)).fit(train, 0, 0).weight_II
    kept = (generator.random((20_000, 60, 4)) >= 0.4) / 0.6  # what is left counts for the lost
    kept[:, :, 2] = 0.0  # of the column that is learnt everything is lost
    noisy = (kept * row_UI).reshape(-1, 4)[:, [0, 1, 3]]
    wanted = np.tile(row_UI[:, 2], 20_000)
    expected = np.linalg.solve(noisy.T @ noisy, noisy.T @ wanted)
    assert np.allclose(weight_II[[0, 1, 3], 2], expected, atol=0.01)


def test_settings_of_edlae_are_those_of_its_grid() -> None:
    method = Edlae(ridges=(1.0, 5.0), dropouts=(0.1, 0.4), diagonals=(0.0, 0.2))
    assert method.settings == 8
    assert method.grid[5] == (5.0, 0.1, 0.2)
    found = {method.fit(TWO, number, 0).weight_II.tobytes() for number in range(8)}
    assert len(found) == 8


def test_slim_by_hand() -> None:
    """One candidate each: w = (1 - lasso) / (count + ridge), so (1 - 0.5) / (2 + 1) for the weight
    of item 0 in column 1, and (1 - 0.5) / (1 + 1) the other way."""
    weight_II = Slim(ridges=(1.0,), lassos=(0.5,)).fit(TWO, 0, 0).weight_II.toarray()
    assert np.allclose(weight_II, [[0, 0.5 / 3], [0.5 / 2, 0]])
    assert not Slim(ridges=(1.0,), lassos=(1.0,)).fit(TWO, 0, 0).weight_II.nnz


@pytest.mark.parametrize("lasso", [0.1, 1.5])
def test_slim_is_the_least_of_its_objective(lasso: float) -> None:
    """Each column against a general solver with bounds."""
    train = split_dataset(ragged(n_users=40, n_items=12), CLEAN).train
    row_UI = train_matrix(train).toarray()
    weight_II = Slim(ridges=(2.0,), lassos=(lasso,)).fit(train, 0, 0).weight_II.toarray()
    some = 0
    for column in range(12):
        others = np.delete(np.arange(12), column)

        def cost(w: np.ndarray, column: int = column, others: np.ndarray = others) -> float:
            left = row_UI[:, column] - row_UI[:, others] @ w
            return float(0.5 * left @ left + w @ w + lasso * w.sum())

        start = np.full(11, 0.01)
        least = scipy.optimize.minimize(cost, start, bounds=[(0, None)] * 11, tol=1e-14)
        assert np.allclose(weight_II[others, column], least.x, atol=1e-3)
        assert cost(weight_II[others, column]) <= least.fun + 1e-6
        some += int((weight_II[others, column] > 0).sum())
    assert 0 < some < 12 * 11
    assert not weight_II.diagonal().any()


def test_sparse_scores_are_those_of_the_dense_table() -> None:
    """An item that stands twice counts once, as in the train matrix."""
    train = split_dataset(ragged(), CLEAN).train
    model = Slim(ridges=(1.0,), lassos=(0.2,)).fit(train, 0, 0)
    assert isinstance(model, SparseItemToItem)
    table_II = model.weight_II.toarray()
    histories = [History(np.array([3, 7, 3])), History(np.zeros(0, np.int64)), train.history(2)]
    found_BI = model.score(histories, KEY)
    assert np.allclose(found_BI[0], table_II[3] + table_II[7])
    assert not found_BI[1].any()
    assert np.allclose(found_BI[2], table_II[np.unique(histories[2].item_H)].sum(0))
    item_K, part_KI = model.contributions(histories[2])
    assert np.allclose(part_KI.sum(0), found_BI[2])
    assert len(item_K) == len(part_KI)


def test_bad_grids_are_one_sentence() -> None:
    for name, setting, said in (
        ("edlae", "dropouts=[1.0]", r"dropouts are \(1.0,\); give at least one, all from 0 to"),
        ("edlae", "ridges=[0.0]", "ridges are"),
        ("edlae", "diagonals=[1.5]", "diagonals are"),
        ("slim", "lassos=[0.0]", "lassos are"),
        ("slim", "ridges=[]", "ridges are"),
    ):
        with pytest.raises(TacitError, match=said):
            resolve(name, sets=[setting])


# SLIM from one sum.


def played(method: FedSlim, train: TrainView, rounds: int = 1) -> dict[str, torch.Tensor]:
    algorithm, engine = method.algorithm(Task.of(train)), CustomEngine(torch.float64, 7)
    state = engine.start(algorithm, train, seed=0)
    for number in range(1, rounds + 1):
        engine.round(algorithm, train, state, Participation().draw(train, 0, number), seed=0)
    return state.shared


def test_every_round_of_fedslim_is_slim_with_the_next_setting() -> None:
    train = split_dataset(ragged(), CLEAN).train
    grid = {"ridges": (1.0, 5.0), "lassos": (0.1, 1.5)}
    for setting in range(4):
        expected_II = Slim(**grid).fit(train, setting, 0).weight_II.toarray()
        found_II = played(FedSlim(**grid), train, setting + 1)["weight"].numpy()
        assert expected_II.any()
        assert np.allclose(found_II, expected_II, atol=1e-12)


def test_fedslim_with_shorter_rows_and_columns_by_hand() -> None:
    """{0, 1} and {0}: with a row power of 1/2 the Gram matrix is [[1.5, 0.5], [0.5, 0.5]]. A lasso
    of 0.1 and a ridge of 0.5 leave 0.4 / 2 and 0.4 / 1; columns are then over their counts."""
    method = FedSlim(ridges=(0.5,), lassos=(0.1,), row_power=0.5, column_power=1.0)
    weight_II = played(method, TWO)["weight"]
    assert np.allclose(weight_II.numpy(), [[0, 0.2 / 0.5], [0.4 / 1.5, 0]])


def test_fedslim_asks_for_what_fedease_asks_for() -> None:
    train = split_dataset(ragged(), CLEAN).train
    slim, ease = (kind().algorithm(Task.of(train)) for kind in (FedSlim, FedEase))
    assert slim.releases(8) == ease.releases(8) == 1
    assert slim.uploads == ease.uploads
    assert torch.equal(played(FedSlim(), train)["gram"], played(FedEase(), train)["gram"])  # type: ignore[arg-type]
    assert FedSlim(row_power=0.5).algorithm(Task.of(train)).bound == Bound(2, 1.0)
    assert slim.bound is None
    private = [resolve(name, plugins=["private"]).method for name in ("fedslim", "fedease")]
    assert private[0] == private[1]
    with pytest.raises(TacitError, match=r"lassos of fedslim is \(0\.1,\), which has no meaning"):
        FedSlim(lassos=(0.1,)).protected(PrivacyRequest())


def test_noise_on_the_sum_leaves_weights_of_a_symmetric_one() -> None:
    """Entries below zero count as none, and the two of a pair are one."""
    noisy_II = torch.tensor([[2.0, 1.5, -1.0], [0.5, 1.0, -2.0], [-1.0, -2.0, 1.0]]).double()
    clean_II = torch.tensor([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).double()
    method = FedSlim(ridges=(1.0,), lassos=(0.5,))
    found, expected = (
        method.step({"gram": gram_II}, {"gram": gram_II}, 3, 1)["weight"]
        for gram_II in (noisy_II, clean_II)
    )
    assert torch.equal(found, expected)
    assert expected[0, 1] == pytest.approx(0.5 / 3)
