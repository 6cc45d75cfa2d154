"""Weights that halve with later items: by hand, per user, in training and in what routers read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.recency import LAST, Recency, weighed
from tacit.core.types import Task
from tacit.data.batches import counted, draw_block, history_of_block, history_of_users
from tacit.data.sampling import Sampling, samples_per_user
from tacit.data.views import History, Lists, TrainView
from tacit.engines.clients import histories, sample_of, score_client
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.newcomer import custom_newcomer_scores
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.methods import Ease, FcfAls, FedEase, FedSpectral, PureSvd, fedmf
from tacit.methods.item_to_item import ItemToItem
from tacit.testing.paths import assert_paths_agree, small_train

TRAIN = small_train()

# Two people: the first touched 7 last, then 5 the longest ago; the second has one item.
LISTS = Lists(np.array([0, 3, 4]), np.array([7, 5, 6, 5]))
TWO = TrainView(
    8, LISTS, np.arange(2, dtype=np.uint64), Lists.empty(2), time_N=np.array([9, 3, 4, 1])
)


def test_weights_by_hand() -> None:
    recency = Recency(half_life=1.0)
    assert recency.of_history(3).tolist() == [0.25, 0.5, 1.0]
    # positions in time are 2, 0, 1: weights 1, 1/4, 1/2, whose mean is 7/12
    expected = np.array([1.0, 0.25, 0.5]) * 12 / 7
    assert recency.of_positives(TWO)[:3] == pytest.approx(expected, rel=1e-15)
    assert recency.of_positives(TWO)[3] == 1.0
    assert recency.of_positives(TWO) is recency.of_positives(TWO)  # computed once for all rounds


def test_an_item_that_was_touched_twice_has_the_later_weight() -> None:
    lists = Lists(np.array([0, 3]), np.array([4, 2, 4]))
    train = TrainView(5, lists, np.zeros(1, np.uint64), Lists.empty(1))
    weight_N = Recency(half_life=1.0).of_positives(train)
    assert weight_N == pytest.approx(np.array([1.0, 0.5, 1.0]) * 3 / 2.5, rel=1e-15)


def test_very_short_half_lives_and_very_long_ones() -> None:
    assert Recency(half_life=1e-4).of_history(3).tolist() == [0.0, 0.0, 1.0]
    assert Recency(half_life=float("inf")).of_positives(TWO).tolist() == [1.0] * 4
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(TacitError, match=r"half_life is .*above 0"):
            Recency(half_life=bad)


def test_positives_count_by_their_weight_and_negatives_once() -> None:
    sampling = Sampling(1)
    drawn = {"batch": 4, "epochs": 2, "seed": 0, "round_number": 1, "dtype": np.float64}
    user_B = np.array([0, 1])
    plain = draw_block(TWO, user_B, samples_per_user(TWO, sampling), sampling, **drawn)
    count_N = Recency(half_life=1.0).of_positives(TWO)
    draws = counted(plain, TWO.positives, user_B, count_N)
    assert counted(plain, TWO.positives, user_B, None) is plain
    assert draws.counts_TSBW is not None
    weight_of = dict(zip(LISTS[0].tolist(), count_N[:3].tolist(), strict=True))
    item_TSW = draws.item_BR[0][draws.row_TSBW[:, :, 0]]
    label_TSW = draws.label_TSBW[:, :, 0]
    seen = 0
    for place in np.ndindex(*item_TSW.shape):
        expected = weight_of[int(item_TSW[place])] if label_TSW[place] else 1.0
        assert draws.counts_TSBW[:, :, 0][place] == expected
        seen += int(label_TSW[place])
    assert seen == 6  # three positives in each of two epochs
    # a step's weights: 1 / size of the batch, times the counts
    assert np.array_equal(draws.weights(1, 0), plain.weight_SBW[0] * draws.counts_TSBW[1, 0])
    assert np.array_equal(plain.weights(1, 0), plain.weight_SBW[0])
    # what routers read: parts of the sum, in the order of item codes
    item_BH, weight_BH = history_of_users(TWO.positives, user_B, count_N)
    assert item_BH[0].tolist() == [5, 6, 7]
    assert weight_BH[0] == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=1e-15)
    assert weight_BH[1].tolist() == [1.0, 0.0, 0.0]
    row_BH, again_BH = history_of_block(TWO, user_B, draws, count_N)
    assert np.array_equal(again_BH, weight_BH)
    assert draws.item_BR[0][row_BH[0]].tolist() == [5, 6, 7]


# Ranking from a history


def test_ease_ranks_with_weighed_rows() -> None:
    """By hand: the second item counts 1, the first one half."""
    weight_II = np.arange(9.0).reshape(3, 3)
    one = weighed(Recency(1.0), [History(np.array([0, 2]))], _unasked, np.zeros(1, np.uint64))
    found_I = ItemToItem(weight_II).score(one, np.zeros(1))[0]
    assert found_I.tolist() == (0.5 * weight_II[0] + weight_II[2]).tolist()


def _unasked(histories: object, key_B: np.ndarray) -> np.ndarray:
    raise AssertionError("nobody has a half-life of its own")


def shared_of(method: object, task: Task) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    declared = method.shared(task)  # type: ignore[attr-defined]
    return {
        name: torch.randn(init.shape, generator=generator, dtype=torch.float64)
        for name, init in declared.items()
    }


CUSTOM = [FedEase(), FedSpectral(width=4), FcfAls(dim=4)]


@pytest.mark.parametrize("method", CUSTOM, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("per_user", [False, True])
def test_blocks_single_clients_and_newcomers_rank_alike(method: FedEase, per_user: bool) -> None:
    weighing = replace(method, recency=Recency(2.0, per_user))
    algorithm = weighing.algorithm(Task.of(TRAIN))
    state = State(shared_of(method, Task.of(TRAIN)), {})
    everybody = np.arange(TRAIN.n_users)
    score_UI = CustomScorer(algorithm, TRAIN, state, block=4)(everybody)
    plain_UI = CustomScorer(method.algorithm(Task.of(TRAIN)), TRAIN, state, block=1)(everybody)
    assert np.abs(score_UI - plain_UI).max() > 1e-3
    for user in everybody:
        alone_I = score_client(algorithm, TRAIN, state, int(user)).numpy()
        assert np.allclose(score_UI[user], alone_I, rtol=0, atol=1e-10)
        person = {"name": int(TRAIN.user_key_U[user]), "seed": 0, "rounds": 1}
        history = TRAIN.history(int(user))
        new_I = custom_newcomer_scores(algorithm, state.shared, history, **person)
        assert np.allclose(score_UI[user], new_I, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", CUSTOM, ids=lambda method: type(method).__name__)
def test_a_very_long_half_life_is_none(method: FedEase) -> None:
    state = State(shared_of(method, Task.of(TRAIN)), {})
    everybody = np.arange(TRAIN.n_users)
    found = [
        CustomScorer(replace(method, recency=one).algorithm(Task.of(TRAIN)), TRAIN, state)(
            everybody
        )
        for one in (None, Recency(1e12))
    ]
    assert np.allclose(*found, rtol=0, atol=1e-9)


def test_an_item_of_weight_zero_is_one_that_was_not_taken() -> None:
    """FCF's least squares are linear in the weights."""
    method = FcfAls(dim=4)
    item_ID = shared_of(method, Task.of(TRAIN))["items"]
    both = histories(TRAIN, np.array([3]), torch.float64)
    longer = both[1][0], torch.ones_like(both[2][0])
    data = _client(longer[0], torch.cat([longer[1][:-1], torch.zeros(1).double()]))
    shorter = _client(longer[0][:-1], longer[1][:-1])
    assert torch.allclose(method.solve(item_ID, data), method.solve(item_ID, shorter))


def _client(history_H: torch.Tensor, real_H: torch.Tensor) -> ClientData:
    nothing = torch.zeros(0).double()
    user = torch.zeros((), dtype=torch.int64)
    return ClientData(user, history_H, real_H, nothing.long(), nothing, nothing)


# A half-life of one's own


def test_a_device_takes_the_half_life_that_ranks_its_latest_items_best() -> None:
    """Item i is followed by i + 1, and item 9 lifts 0 for everybody who ever touched it: only
    those who forget quickly rank the next item first."""
    weight_II = np.zeros((10, 10))
    weight_II[np.arange(8), np.arange(1, 9)] = 1.0
    weight_II[9, 0] = 3.0
    scorer = ItemToItem(weight_II)
    history = History(np.array([9, 2, 3, 4, 5]))
    recency = Recency(half_life=4.0, per_user=True)
    (found,) = weighed(recency, [history], scorer.score, np.zeros(1, np.uint64))
    # 1, 2 and 3 items after 9, its lift is 3 w: below one of 1 only for the half-life of 1
    assert found.weights.tolist() == Recency(1.0).of_history(5).tolist()
    # without item 9 all rank alike, and the given half-life stays
    (kept,) = weighed(recency, [History(history.item_H[1:])], scorer.score, np.zeros(1, np.uint64))
    assert kept.weights.tolist() == recency.of_history(4).tolist()


def test_central_and_federated_devices_choose_alike() -> None:
    recency = Recency(2.0, per_user=True)
    state = State(shared_of(FedEase(), Task.of(TRAIN)), {})
    federated = FedEase(recency=recency).algorithm(Task.of(TRAIN))
    found_UI = CustomScorer(federated, TRAIN, state)(np.arange(TRAIN.n_users))
    model = ItemToItem(state.shared["weight"].numpy())
    some = [TRAIN.history(user) for user in range(TRAIN.n_users)]
    chosen = weighed(recency, some, model.score, TRAIN.user_key_U)
    assert np.allclose(found_UI, model.score(chosen, TRAIN.user_key_U), atol=1e-9)
    taken = {tuple(one.weights[-2:]) for one in chosen if len(one) > 1}
    assert len(taken) > 1  # not everybody takes the same


def test_short_histories_take_the_given_half_life() -> None:
    recency = Recency(2.0, per_user=True)
    for length in (0, 1):
        (one,) = weighed(recency, [History(np.arange(length))], _unasked, np.zeros(1, np.uint64))
        assert one.weights.tolist() == [1.0] * length
    order_H, real_H = torch.arange(2), torch.ones(2).double()
    assert recency.trials(order_H, real_H)[:, 1:].abs().sum() == 0  # there is one item before
    assert recency.trials(order_H, real_H).shape == (len(recency.grid), LAST, 2)


@dataclass(frozen=True)
class Halved(Recency):
    """The latest item counts once, all others a half."""

    def decay(self, age_H: torch.Tensor, half_life: torch.Tensor) -> torch.Tensor:
        return torch.where(age_H > 0, 0.5, 1.0).to(half_life)


def test_weights_of_ones_own_are_never_ignored() -> None:
    halved = Halved()
    assert halved.of_history(3).tolist() == [0.5, 0.5, 1.0]
    assert halved.of_positives(TWO)[:3].tolist() == [1.5, 0.75, 0.75]
    assert halved.of_items(History(np.array([6, 2])))[1] == pytest.approx([2 / 3, 1 / 3])
    order_H, real_H = torch.arange(3), torch.ones(3).double()
    assert halved.of_order(order_H, real_H).tolist() == [0.5, 0.5, 1.0]
    assert halved.trials(order_H, real_H)[2, 0].tolist() == [0.5, 1.0, 0.0]
    scores = torch.zeros(len(halved.grid), LAST, 8).double()
    assert halved.own(scores, order_H, order_H, real_H).tolist() == [0.5, 0.5, 1.0]
    # the kernels train with them, too
    assert_paths_agree(replace(fedmf(dim=4), recency=halved), TRAIN)


# Who reads the order, and who cannot


def test_algorithms_say_whether_they_read_the_order() -> None:
    task = Task(2, 8)
    for plain in (fedmf(dim=4), FedEase(), Ease(), PureSvd(), FcfAls()):
        assert not plain.algorithm(task).reads_order
        assert replace(plain, recency=Recency()).algorithm(task).reads_order  # type: ignore[type-var]


def test_a_method_with_ragged_kernels_says_that_they_do_not_score() -> None:
    task, engine = Task(2, 8), CustomEngine()
    plain = engine.describe(FcfAls().algorithm(task)).text
    said = engine.describe(FcfAls(recency=Recency()).algorithm(task)).text
    assert said == f"{plain}; scores: blocks of 64 clients (recent items count more)"


def test_what_is_learnt_and_sent_stays_as_it_is() -> None:
    task = Task.of(TRAIN)
    state = State(shared_of(FedEase(), task), {})
    plain, weighing = FedEase().algorithm(task), FedEase(recency=Recency(1.0)).algorithm(task)
    sent = [sample_of(one, TRAIN, state, 0).update.upload.change for one in (plain, weighing)]
    assert torch.equal(sent[0]["gram"], sent[1]["gram"])
    assert plain.releases(9) == weighing.releases(9) == 1
    sizes = [
        one.traffic(lambda one=one: sample_of(one, TRAIN, state, 0), [9], 4)  # type: ignore[misc]
        for one in (plain, weighing)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("method", [Ease((5.0,)), PureSvd((4,))], ids=["ease", "pure_svd"])
def test_fitting_leaves_the_train_view_as_it_is(method: Ease) -> None:
    """A matrix that sorts its rows in place would tear items and times apart."""
    train = small_train()
    before_N = train.positives.item_N.copy()
    assert any(np.any(np.diff(train.positives[user]) < 0) for user in range(train.n_users))
    method.fit(train, 0, 0)
    assert np.array_equal(train.positives.item_N, before_N)
