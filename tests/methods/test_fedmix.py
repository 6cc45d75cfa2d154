"""FedMix: what everybody shares is EASE, and each device weighs powers of counts for itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.types import Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import custom_newcomer_scores
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.methods import FedEase, FedMix
from tacit.methods.fedmix import own_weights
from tacit.testing import ragged

WIDE = torch.float64
TRAIN = split_dataset(ragged(), CLEAN).train
EVERYBODY = np.arange(TRAIN.n_users)


def played(method, train: TrainView = TRAIN, rounds: int = 1, engine=CustomEngine):  # type: ignore[no-untyped-def]
    algorithm, plays = method.algorithm(Task.of(train)), engine(WIDE)
    state = plays.start(algorithm, train, seed=0)
    for number in range(1, rounds + 1):
        plays.round(algorithm, train, state, Participation().draw(train, 0, number), seed=0)
    return algorithm, state


def scored(method, rounds: int = 1) -> np.ndarray:  # type: ignore[no-untyped-def]
    algorithm, state = played(method, rounds=rounds)
    return CustomScorer(algorithm, TRAIN, state)(EVERYBODY)


def test_two_views_by_hand() -> None:
    """Items 0 (own), 1 and 2; views (1, 0, 1) and (0, 1, 1).

    The own item counts 1, the others 1/2 each: the normal equations are [[3/2, 1/2], [1/2, 1]] and
    [1, 0], so w = [4/5, -2/5] without trust. All alike, at 1/2 each, are best at a scale of
    (1/2) / (7/8) = 4/7; with a trust of 1 the mean diagonal 5/4 draws w towards 2/7 each.
    """
    view_IV = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=WIDE)
    is_own_I = torch.tensor([True, False, False])
    free_V = own_weights(view_IV, is_own_I, torch.tensor(0.0, dtype=WIDE))
    assert free_V.tolist() == pytest.approx([0.8, -0.4])
    drawn_V = own_weights(view_IV, is_own_I, torch.tensor(1.0, dtype=WIDE))
    # [[11/4, 1/2], [1/2, 9/4]] w = [1 + 5/14, 5/14]: determinant 95/16
    expected = [(19 / 14 * 9 / 4 - 5 / 28) * 16 / 95, (11 / 4 * 5 / 14 - 19 / 28) * 16 / 95]
    assert drawn_V.tolist() == pytest.approx(expected)
    alike_V = own_weights(view_IV, is_own_I, torch.tensor(1e9, dtype=WIDE))
    assert alike_V.tolist() == pytest.approx([2 / 7, 2 / 7])


def test_who_has_nothing_to_fit_takes_all_views_alike() -> None:
    nothing_IV = torch.zeros(3, 2, dtype=WIDE)
    is_own_I = torch.tensor([True, False, False])
    assert own_weights(nothing_IV, is_own_I, torch.tensor(0.1)).tolist() == [0.5, 0.5]
    wrong_IV = torch.tensor([[-1.0, -1.0], [0.0, 0.5], [0.5, 0.0]], dtype=WIDE)
    assert own_weights(wrong_IV, is_own_I, torch.tensor(0.1)).tolist() == [0.5, 0.5]


def test_a_single_view_ranks_as_fedease() -> None:
    """Scores are those of EASE, each person's times one number above zero."""
    mixed_UI = scored(FedMix(ridges=(5.0,), trusts=(1.0,), powers=(0.0,)))
    ease_UI = scored(FedEase(ridges=(5.0,)))
    ratio_UI = mixed_UI / np.where(np.abs(ease_UI) > 1e-9, ease_UI, np.nan)
    assert (np.nanmin(ratio_UI, 1) > 0).all()
    assert np.nanmax(np.ptp(ratio_UI, axis=1) / np.nanmean(ratio_UI, 1)) < 1e-6


def test_people_weigh_the_views_in_ways_of_their_own() -> None:
    """The same shared model: with much trust the mixture is everybody's, with little it is not."""
    method = FedMix(ridges=(5.0,), trusts=(0.01,), powers=(0.0, 0.5))
    algorithm, state = played(method)
    row_UI = np.zeros((TRAIN.n_users, TRAIN.n_items))
    weights = []
    for user in EVERYBODY:
        row_UI[user, TRAIN.history(user).item_H] = 1.0
    weight_II, count_I = (state.shared[name].numpy() for name in ("weight", "counts"))
    for row_I in row_UI:
        view_IV = (row_I @ weight_II)[:, None] * np.maximum(count_I, 1)[:, None] ** -np.array(
            method.powers
        )
        view_IV = view_IV / np.sqrt((view_IV**2).mean(0))
        own_V = own_weights(
            torch.from_numpy(view_IV), torch.from_numpy(row_I > 0), torch.tensor(0.01)
        )
        weights.append(own_V.numpy())
    weight_UV = np.stack(weights)
    assert np.ptp(weight_UV[:, 0] / weight_UV.sum(1)) > 0.1
    found_UI = CustomScorer(algorithm, TRAIN, state)(EVERYBODY)
    last_I = view_IV @ weight_UV[-1]
    assert np.abs(found_UI[-1] - last_I).max() < 1e-9


def test_rounds_try_the_grid_and_solve_once_for_each_ridge() -> None:
    method = FedMix(ridges=(1.0, 10.0), trusts=(0.1, 10.0))
    tables, trusts = [], []
    for rounds in range(1, 6):
        _, state = played(method, rounds=rounds)
        tables.append(state.shared["weight"])
        trusts.append(float(state.shared["trust"]))
    assert trusts == [0.1, 10.0, 0.1, 10.0, 10.0]
    assert torch.equal(tables[0], tables[1])
    assert torch.equal(tables[2], tables[4])
    assert not torch.allclose(tables[1], tables[2])
    for place, ridge in ((0, 1.0), (2, 10.0)):
        _, ease = played(FedEase(ridges=(ridge,)))
        assert torch.allclose(tables[place], ease.shared["weight"])


def test_the_loop_has_the_same_state() -> None:
    method = FedMix(ridges=(3.0,), trusts=(0.5,), row_power=0.25)
    for name, value in played(method)[1].shared.items():
        assert torch.allclose(played(method, engine=LoopEngine)[1].shared[name], value)


def test_a_newcomer_fits_weights_of_its_own() -> None:
    """A stranger with the history of a person is ranked for as that person."""
    method = FedMix(ridges=(5.0,), trusts=(0.1,))
    algorithm, state = played(method)
    user = int(np.argmax(TRAIN.positives.size_U))
    history = History(TRAIN.history(user).item_H)
    found_I = custom_newcomer_scores(algorithm, state.shared, history, name=7, seed=0, rounds=1)
    assert np.abs(found_I - CustomScorer(algorithm, TRAIN, state)(EVERYBODY)[user]).max() < 1e-9


def test_weights_stay_and_counts_come() -> None:
    """Up goes what fedease sends; down come the counts and one number more."""
    lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 1]), n_lists=2)
    train = TrainView(2, lists, np.array([1, 2], np.uint64), Lists.empty(2))
    algorithm, state = played(FedMix(ridges=(1.0,), trusts=(1.0,)), train)
    assert algorithm.uploads == {"gram"}
    assert not algorithm.private
    assert state.shared["counts"].tolist() == [1.0, 2.0]
    down = algorithm.method.broadcast(state.shared, torch.tensor(0))
    assert {name: value.numel() for name, value in down.items()} == {
        "weight": 4,
        "counts": 2,
        "trust": 1,
    }
    assert "never leave" in algorithm.method.interpretation()[-1]


def test_bad_settings_are_refused() -> None:
    with pytest.raises(TacitError, match="trusts are"):
        FedMix(trusts=(0.0,))
    with pytest.raises(TacitError, match="powers are"):
        replace(FedMix(), powers=())
    with pytest.raises(TacitError, match="powers are"):
        FedMix(powers=(1.5,))
