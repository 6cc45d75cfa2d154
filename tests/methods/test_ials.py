"""iALS, against numbers by hand and against its objective written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.methods.ials import Ials, once
from tacit.testing import ragged

NOBODY = np.zeros(1, np.int64)


def one_user() -> TrainView:
    lists = Lists(np.array([0, 1]), np.array([0]))
    return TrainView(2, lists, np.ones(1, np.uint64), Lists.empty(1))


def test_one_epoch_by_hand() -> None:
    """h = (1, 2), a = 1/2, ridge 1: the user's row is 1 / (1 + (1 + 4)/2 + (1 + 2/2)) = 2/11. An
    item that it has is then w / (w^2 + w^2/2 + (1 + 1/2)), the other one zero."""
    items = {"items": torch.tensor([[1.0], [2.0]], dtype=torch.float64)}
    model = Ials(dim=1, unobserved=0.5, ridge=1.0)
    stepped, loss = model.epoch(items, one_user(), 0, 1)
    w = 2 / 11
    h = w / (1.5 * w * w + 1.5)
    assert stepped["items"].flatten().tolist() == pytest.approx([h, 0.0])
    penalty = (1 + 0.5 * 2) * w * w + (1 + 0.5) * h * h
    assert loss == pytest.approx((1 - w * h) ** 2 + 0.5 * (w * h) ** 2 + penalty)


def test_the_penalty_by_hand() -> None:
    """Rows known by 0 and 3 of 4 columns, a = 1/2: (0 + 2) and (3 + 2), to the power nu."""
    known_R = np.array([0, 3])
    for exponent, expected in ((0.0, [0.1, 0.1]), (1.0, [0.2, 0.5]), (2.0, [0.4, 2.5])):
        model = Ials(dim=1, unobserved=0.5, ridge=0.1, exponent=exponent)
        assert model.penalty(known_R, 4) == pytest.approx(expected)


def test_epochs_descend_to_where_every_row_is_least() -> None:
    """The objective written out over all pairs falls in every epoch, and its slope by the items is
    zero after each, since they are solved last."""
    train = split_dataset(ragged(n_users=20, n_items=15), CLEAN).train
    model = Ials(dim=3, unobserved=0.2, ridge=0.05, exponent=0.7)
    row_UI = np.zeros((20, 15))
    row_UI[train.positives.list_N, train.positives.item_N] = 1.0

    def written_out(user_UD: torch.Tensor, item_ID: torch.Tensor) -> torch.Tensor:
        score_UI, x = user_UD @ item_ID.T, torch.from_numpy(row_UI)
        fit = (x * (1 - score_UI) ** 2).sum() + 0.2 * (score_UI**2).sum()
        users = ((x.sum(1) + 0.2 * 15) ** 0.7 * (user_UD**2).sum(1)).sum()
        items = ((x.sum(0) + 0.2 * 20) ** 0.7 * (item_ID**2).sum(1)).sum()
        return fit + 0.05 * (users + items)

    parameters, losses = model.start(train, 0, torch.float64), []
    for number in range(1, 6):
        lists = Lists.from_pairs(*np.nonzero(row_UI), 20)
        user_UD = torch.from_numpy(model.solved(parameters["items"].numpy(), lists))
        parameters, loss = model.epoch(parameters, train, 0, number)
        item_ID = parameters["items"].clone().requires_grad_()
        whole = written_out(user_UD, item_ID)
        assert loss * row_UI.sum() == pytest.approx(whole.item(), rel=1e-9)
        (slope_ID,) = torch.autograd.grad(whole, item_ID)
        assert slope_ID.abs().max() < 1e-9
        losses.append(loss)
    assert all(after < before for before, after in pairwise(losses))


def test_first_values_shrink_with_the_width() -> None:
    train = split_dataset(ragged(n_items=50), CLEAN).train
    for dim in (4, 64):
        spread = Ials(dim=dim, stdev=0.4).start(train, 0)["items"].std()
        assert float(spread) == pytest.approx(0.4 / dim**0.5, rel=0.2)


def test_a_newcomer_ranks_as_one_who_was_there() -> None:
    train = split_dataset(ragged(), CLEAN).train
    model = Ials(dim=4)
    parameters, _ = model.epoch(model.start(train, 0), train, 0, 1)
    known = model.score(parameters, [train.history(3)], np.array([3]))[0]
    new = model.score_newcomer(parameters, train.history(3), name=9, seed=1, epochs=5)
    assert np.array_equal(known, new)
    nothing = model.score(parameters, [History(np.zeros(0, np.int64))], NOBODY)
    assert not nothing.any()
    twice = History(np.concatenate([train.history(3).item_H] * 2))
    assert np.allclose(model.score(parameters, [twice], NOBODY)[0], known)


def test_threads_change_not_a_bit() -> None:
    train = split_dataset(ragged(n_users=600, n_items=40), CLEAN).train
    model, before = Ials(dim=5), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            parameters, _ = model.epoch(model.start(train, 0), train, 0, 1)
            found.append(parameters["items"])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])


def test_how_many_parameters() -> None:
    train = split_dataset(ragged(), CLEAN).train
    model = Ials(dim=6)
    assert sum(v.numel() for v in model.start(train, 0).values()) == model.n_parameters(50) == 300


def test_a_way_to_solve_of_ones_own_is_taken() -> None:
    class Doubled(Ials):
        def solved(self, other_CD: np.ndarray, lists: Lists) -> np.ndarray:
            return 2 * super().solved(other_CD, lists)

    train = split_dataset(ragged(), CLEAN).train
    plain, other = Ials(dim=3), Doubled(dim=3)
    start = plain.start(train, 0)
    for found in (plain, other):
        assert not np.allclose(
            found.score(start, [train.history(0)], NOBODY),
            other.score(other.epoch(start, train, 0, 1)[0], [train.history(0)], NOBODY),
        )
    assert np.allclose(
        2 * plain.score(start, [train.history(0)], NOBODY),
        other.score(start, [train.history(0)], NOBODY),
    )


def test_bad_settings_are_one_sentence() -> None:
    for setting, said in (
        ("dim=0", "dim is 0; it must be at least 1."),
        ("unobserved=0.0", "unobserved is 0.0; it must be above 0."),
        ("ridge=-1.0", "ridge is -1.0; it must be above 0."),
        ("exponent=-0.5", "exponent is -0.5; it must not be negative."),
    ):
        with pytest.raises(TacitError, match=said):
            resolve("ials", sets=[setting])


def test_one_step_of_conjugate_gradients_by_hand() -> None:
    """h = 1 and 2, a = 1/2, ridge 1: the row of the user is pulled by 1 against 5.5 of itself, so
    one step in one number solves it: 2/11. An item that it has is then solved as well."""
    model = Ials(dim=1, unobserved=0.5, ridge=1.0, steps=1)
    start = {
        "items": torch.tensor([[1.0], [2.0]], dtype=torch.float64),
        "user": torch.tensor([[3.0]], dtype=torch.float64),
    }
    stepped, loss = model.epoch(start, one_user(), 0, 1)
    exact, same = Ials(dim=1, unobserved=0.5, ridge=1.0).epoch(start, one_user(), 0, 1)
    assert stepped["user"].item() == pytest.approx(2 / 11)
    assert stepped["items"].flatten().tolist() == pytest.approx(exact["items"].flatten().tolist())
    assert loss == pytest.approx(same)
    assert start["user"].item() == 3.0  # what came in stays


def test_one_step_in_two_numbers_by_hand() -> None:
    """Nothing known before: the way is the row of the only item, (1, 1). What bends it is the
    item's own 2, half of what all items make, (1, 2), and a ridge of 2: (5, 6). So the step is
    2 / 11 long."""
    model = Ials(dim=2, unobserved=0.5, ridge=1.0, steps=1)
    items = np.array([[1.0, 1.0], [0.0, 2.0**0.5]])
    lists = Lists(np.array([0, 1]), np.array([0]))
    around = 0.5 * items.T @ items
    way = np.array([1.0, 1.0])
    bent = way * 2 + around @ way + 2 * way
    expected = (way @ way) / (way @ bent) * way
    squares = np.zeros(1)
    found = model.improved(np.zeros((1, 2)), items, lists, squares)
    assert found[0] == pytest.approx(expected)
    assert squares[0] == pytest.approx((1 - expected.sum()) ** 2)


def test_as_many_steps_as_numbers_solve_a_row() -> None:
    train = split_dataset(ragged(n_users=20, n_items=15), CLEAN).train
    exact = Ials(dim=4, unobserved=0.2, ridge=0.05)
    items = exact.start(train, 0, torch.float64)["items"].numpy()
    lists = once(train.positives, 15)
    solved_UD = exact.solved(items, lists)
    far = []
    for steps in (1, 2, 4, 9):
        model = Ials(dim=4, unobserved=0.2, ridge=0.05, steps=steps)
        far.append(np.abs(model.improved(np.ones((20, 4)), items, lists) - solved_UD).max())
    assert far[0] > far[1] > far[2]
    assert far[2] < 1e-9
    assert far[3] < 1e-9  # nothing is left, and nothing is divided by it


def test_descended_rows_lower_the_objective_and_end_where_solved_ones_do() -> None:
    train = split_dataset(ragged(n_users=20, n_items=15), CLEAN).train
    ends = []
    for steps in (None, 2):
        model = Ials(dim=3, unobserved=0.2, ridge=0.3, steps=steps)
        parameters, losses = model.start(train, 0, torch.float64), []
        for number in range(1, 200):
            parameters, loss = model.epoch(parameters, train, 0, number)
            losses.append(loss)
        assert all(after < before + 1e-12 for before, after in pairwise(losses))
        ends.append(losses[-1])
    assert ends[1] == pytest.approx(ends[0], rel=1e-6)


def test_steps_rank_from_the_history_too() -> None:
    """The kept rows of users are for training: ranking is that of a newcomer."""
    train = split_dataset(ragged(), CLEAN).train
    model = Ials(dim=4, steps=2)
    parameters, _ = model.epoch(model.start(train, 0), train, 0, 1)
    known = model.score(parameters, [train.history(3)], np.array([3]))[0]
    new = model.score_newcomer(parameters, train.history(3), name=9, seed=1, epochs=5)
    assert np.array_equal(known, new)
    assert parameters["user"].shape == (train.n_users, 4)
    with pytest.raises(TacitError, match=r"steps is 0; it must be at least 1, or None to solve\."):
        resolve("ials", sets=["steps=0"])
