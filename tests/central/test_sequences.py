"""Windows, draws, losses and networks over ordered histories."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from tacit import streams
from tacit.central.sequences import (
    Dropout,
    Outputs,
    SequenceModel,
    Windows,
    draw_bits,
    draw_negatives,
    dropout_keys,
    in_batch_loss,
    latest,
    sampled_loss,
    softmax_loss,
)
from tacit.core.optim import without_optimizer_state
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.errors import TacitError
from tacit.methods.sequence_models import Gru4Rec, SasRec
from tacit.testing.synthetic import ragged

WIDE, CPU = torch.float64, torch.device("cpu")
TRAIN = split_dataset(ragged(), CLEAN).train
MODELS: dict[str, SequenceModel] = {
    "sasrec": SasRec(dim=6, heads=2, length=7, batch=5),
    "sasrec with a softmax": SasRec(dim=6, length=7, batch=5, loss="softmax"),
    "gru4rec": Gru4Rec(dim=5, length=7, batch=5),
    "gru4rec with bpr_max": Gru4Rec(dim=5, length=7, batch=5, loss="bpr_max"),
}


# Windows


@pytest.mark.parametrize("length", [1, 3, 7, 100])
def test_whole_windows_have_every_transition_once(length: int) -> None:
    item_N = TRAIN.histories.items.item_N
    windows = Windows.of(TRAIN.histories, length, whole=True)
    found = []
    for user, start, size in zip(windows.user_W, windows.start_W, windows.size_W, strict=True):
        assert 1 <= size <= length
        found += [(user, item_N[p], item_N[p + 1]) for p in range(start, start + size)]
    expected = [
        (user, one, two)
        for user in range(TRAIN.n_users)
        for one, two in pairwise(TRAIN.history(user).item_H)
    ]
    assert sorted(found) == sorted(expected)


def test_latest_windows_are_what_is_scored_less_the_last_item() -> None:
    windows = Windows.of(TRAIN.histories, 4, whole=False)
    several = np.flatnonzero(TRAIN.positives.size_U > 1)
    assert windows.user_W.tolist() == several.tolist()
    read = windows.read(TRAIN.histories, CPU)
    target_BL = windows.laid_out(TRAIN.histories.items.item_N, 1, CPU)
    for b, user in enumerate(several):
        item_H = TRAIN.history(int(user)).item_H
        size = int(read.size_B[b])
        assert read.item_BL[b, :size].tolist() == item_H[:-1][-4:].tolist()
        assert target_BL[b, :size].tolist() == item_H[1:][-4:].tolist()
        assert read.from_end_BL[b, :size].tolist() == list(range(size))[::-1]
    assert (read.after_B == 1).all()


# Draws


def test_negatives_are_those_of_a_federated_client() -> None:
    negative_N = draw_negatives(TRAIN, Sampling(negatives=1), seed=3, number=2)
    for user in range(TRAIN.n_users):
        own = slice(*TRAIN.positives.start_U1[user : user + 2])
        found = negative_N[own]
        drawn, label = draw_samples(
            TRAIN, user, Sampling(negatives=1), seed=3, round_number=2, epoch=0
        )
        assert sorted(found) == sorted(drawn[label == 0])
        assert not set(found) & set(TRAIN.positives[user])
    assert (draw_negatives(TRAIN, None, seed=3, number=2) == -1).all()
    assert SasRec().sampling == Sampling(negatives=1)
    assert Gru4Rec().sampling is None


def test_dropout_is_the_users_own() -> None:
    """Neither padding nor company changes what is left out, and about the rate of it is."""
    key_U = torch.from_numpy(dropout_keys(TRAIN, 0, 1))
    place_BL = torch.arange(6).flip(0).expand(2, 6)
    both = Dropout(0.3, key_U[[4, 9]], place_BL)(torch.ones(2, 6, 5), 2)
    alone = Dropout(0.3, key_U[[9]], torch.tensor([[2, 1, 0]]))(torch.ones(1, 3, 5), 2)
    assert torch.equal(both[1, 3:], alone[0])
    assert not torch.equal(both[0], both[1])
    other = Dropout(0.3, key_U[[4, 9]], place_BL)(torch.ones(2, 6, 5), 3)
    assert not torch.equal(both, other)
    assert set(both.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    unit = streams.uniforms(0, streams.NETWORK_DROPOUT, 1, TRAIN.user_key_U[[4]], 5)[0]
    first = Dropout(0.3, key_U[[4]], torch.zeros(1, 1, dtype=torch.int64))(torch.ones(1, 1, 5), 0)
    assert (first[0, 0] > 0).tolist() == (unit >= 0.3).tolist()
    many = Dropout(0.3, key_U, torch.arange(200).expand(len(key_U), 200))
    share = (many(torch.ones(len(key_U), 200, 8), 0) == 0).double().mean().item()
    assert abs(share - 0.3) < 0.01


def test_dropout_on_the_cpu_draws_what_it_does_on_a_gpu() -> None:
    """A compiled loop there, tensors of draws elsewhere."""
    key_B = torch.from_numpy(dropout_keys(TRAIN, 0, 1))[::3]
    place_BL = torch.arange(9).flip(0).expand(len(key_B), 9)
    kept_BLD = Dropout(0.3, key_B, place_BL).kept(4, 2)
    counter_BLD = (2 << 40) + place_BL[:, :, None] * 4 + torch.arange(4)
    drawn_BLD = draw_bits(key_B[:, None, None], counter_BLD)
    assert torch.equal(kept_BLD, drawn_BLD >= int(0.3 * 2**53))
    assert 0.5 < kept_BLD.double().mean() < 0.9


# Losses, by hand


def test_losses_by_hand() -> None:
    table_ID = torch.tensor([[0.0], [1.0], [2.0], [-1.0]], dtype=WIDE)
    outputs = Outputs(table_ID, torch.tensor([0.5, 0.0, 0.0, 0.0], dtype=WIDE))
    state = torch.tensor([[1.0], [2.0]], dtype=WIDE)
    logit = np.array([[0.5, 1.0, 2.0, -1.0], [0.5, 2.0, 4.0, -2.0]])

    def sigmoid(x: float) -> float:
        return float(1 / (1 + np.exp(-x)))

    target, negative = torch.tensor([2, 1]), torch.tensor([0, -1])
    expected = -np.log(sigmoid(2.0)) - np.log(1 - sigmoid(0.5)) - np.log(sigmoid(2.0))
    assert sampled_loss(outputs, state, target, negative).item() == pytest.approx(expected)
    expected = sum(np.log(np.exp(row).sum()) - row[t] for row, t in zip(logit, (2, 1), strict=True))
    assert softmax_loss(outputs, state, target).item() == pytest.approx(expected)
    # two rows at one place; the third is padding, and the fourth has the target of the first
    state_BLD = torch.tensor([[[1.0]], [[2.0]], [[9.0]], [[3.0]]], dtype=WIDE)
    target_BL, real_BL = torch.tensor([[2], [1], [3], [2]]), torch.tensor([[1], [1], [0], [1]]) > 0
    found = {
        kind: in_batch_loss(kind, outputs, state_BLD, target_BL, real_BL).item()  # type: ignore[arg-type]
        for kind in ("cross_entropy", "top1", "bpr_max")
    }
    # positive against its negatives: 2 against 1; 2 against 4 and 4; 6 against 3
    against = [(2.0, [1.0]), (2.0, [4.0, 4.0]), (6.0, [3.0])]
    expected = sum(np.log(np.exp([one, *rest]).sum()) - one for one, rest in against)
    assert found["cross_entropy"] == pytest.approx(expected)
    expected = sum(
        np.mean([sigmoid(n - one) + sigmoid(n * n) for n in rest]) for one, rest in against
    )
    assert found["top1"] == pytest.approx(expected)
    expected = sum(-np.log(sigmoid(one - rest[0])) + rest[0] ** 2 for one, rest in against)
    assert found["bpr_max"] == pytest.approx(expected)


def test_a_softmax_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = Outputs(torch.randn(9, 4, dtype=WIDE).requires_grad_(), None)
    state, target = torch.randn(11, 4, dtype=WIDE).requires_grad_(), torch.arange(11) % 9
    found = []
    for size in (1 << 20, 30):
        monkeypatch.setattr("tacit.central.sequences._LOGITS_AT_ONCE", size)
        loss = softmax_loss(outputs, state, target)
        found.append([loss, *torch.autograd.grad(loss, [state, outputs.table_ID])])
    for one, two in zip(*found, strict=True):
        assert torch.allclose(one, two, rtol=1e-12, atol=1e-12)


def test_a_place_without_another_target_teaches_nothing() -> None:
    table_ID = torch.ones(3, 2, dtype=WIDE, requires_grad=True)
    outputs, real_BL = Outputs(table_ID, None), torch.ones(2, 1, dtype=torch.bool)
    for kind in ("cross_entropy", "top1", "bpr_max"):
        loss = in_batch_loss(
            kind,  # type: ignore[arg-type]
            outputs,
            torch.ones(2, 1, 2, dtype=WIDE),
            torch.ones(2, 1, dtype=torch.int64),
            real_BL,
        )
        assert loss.item() == 0
        assert not torch.autograd.grad(loss, table_ID)[0].any()


# Networks


@pytest.mark.parametrize("name", MODELS)
def test_later_items_do_not_change_earlier_states(name: str) -> None:
    model = MODELS[name]
    p = without_optimizer_state(model.start(TRAIN, 0, WIDE))
    p = {key: value + 0.1 * torch.randn_like(value) for key, value in p.items()}
    one, two = (
        model.states(p, latest([History(np.array(items))], 7, CPU), None)
        for items in ([3, 8, 1, 5, 9], [3, 8, 1, 6, 2])
    )
    assert torch.allclose(one[:, :3], two[:, :3], rtol=1e-12, atol=1e-12)
    assert (one[:, 3:] - two[:, 3:]).abs().max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_padding_and_company_change_no_state(name: str) -> None:
    model = MODELS[name]
    p = without_optimizer_state(model.start(TRAIN, 0, WIDE))
    histories = [History(np.array(items)) for items in ([4, 2, 9, 1, 30, 31], [8, 3], [])]
    together = model.score(p, histories, np.zeros(3, np.int64))
    for b, history in enumerate(histories):
        alone = model.score_newcomer(p, history, name=b, seed=0, epochs=5)
        assert np.allclose(together[b], alone, rtol=1e-12, atol=1e-12)
    assert not together[2].any()
    long = History(np.arange(20))
    short = History(np.arange(20)[-7:])
    both = model.score(p, [long, short], np.zeros(2, np.int64))
    assert np.allclose(both[0], both[1], rtol=1e-12, atol=1e-12)


def test_parameters_are_those_of_the_papers() -> None:
    dim, length, items = 50, 200, 3416
    found = SasRec(length=length).parameters(items)
    block = 3 * dim**2 + 2 * (dim**2 + dim) + 2 * 2 * dim
    assert sum(init.count for init in found.values()) == (
        (items + length) * dim + 2 * block + 2 * dim
    )
    found = Gru4Rec().parameters(items)
    assert sum(init.count for init in found.values()) == items * 101 + 6 * 100 * 101
    assert (SasRec().batch, SasRec().heads, SasRec().blocks, SasRec().loss) == (128, 1, 2, "bce")


@pytest.mark.parametrize("name", MODELS)
def test_an_epoch_is_a_function_of_what_came_in(name: str) -> None:
    """Twice the same, whatever happened in between; what came in stays as it is."""
    model = MODELS[name]
    start = model.start(TRAIN, 0, WIDE)
    kept = {key: value.clone() for key, value in start.items()}
    one, loss = model.epoch(start, TRAIN, 0, 1)
    torch.manual_seed(4)
    two, again = model.epoch(start, TRAIN, 0, 1)
    assert loss == again
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert all(torch.equal(start[key], kept[key]) for key in start)
    assert one.keys() == start.keys()
    assert one["items/steps"] == -(-len(Windows.of(TRAIN.histories, 7, whole=model.whole)) // 5)
    three, _ = model.epoch(start, TRAIN, 0, 2)
    assert not torch.equal(one["items"], three["items"])
    losses = [loss]
    for number in range(2, 9):
        one, loss = model.epoch(one, TRAIN, 0, number)
        losses.append(loss)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_descends_on_the_mean_of_its_places(name: str) -> None:
    """The slope of an epoch that is one batch, against differences of the loss."""
    model = replace(MODELS[name], batch=100, dropout=0.0)
    start = without_optimizer_state(model.start(TRAIN, 0, WIDE))
    windows = Windows.of(TRAIN.histories, 7, whole=model.whole)
    negative_N = draw_negatives(TRAIN, model.sampling, seed=0, number=1)

    def loss(p: dict[str, torch.Tensor]) -> float:
        read = windows.read(TRAIN.histories, CPU)
        state_BLD = model.states(p, read, None)
        target_BL = windows.laid_out(TRAIN.histories.items.item_N, 1, CPU)
        negative_BL = windows.laid_out(negative_N, 1, CPU)
        total = model.batch_loss(p, state_BLD, target_BL, negative_BL, read.real_BL)
        return total.item() / int(windows.size_W.sum())

    moved, _ = model.epoch(model.start(TRAIN, 0, WIDE), TRAIN, 0, 1)
    for key, place in (("items", (3, 1)), ("items", (8, 2))):
        up, down = ({k: v.clone() for k, v in start.items()} for _ in range(2))
        up[key][place] += 1e-5
        down[key][place] -= 1e-5
        slope = (loss(up) - loss(down)) / 2e-5
        # after one step Adam's first moment is a tenth of the slope
        assert moved[f"{key}/first"][place].item() / 0.1 == pytest.approx(slope, rel=1e-4, abs=1e-9)


def test_histories_of_one_item_train_nothing() -> None:
    lists = Lists(np.array([0, 1, 2]), np.array([0, 1]))
    train = TrainView(3, lists, np.arange(2, dtype=np.uint64), Lists.empty(2))
    for model in MODELS.values():
        start = model.start(train, 0, WIDE)
        after, loss = model.epoch(start, train, 0, 1)
        assert np.isnan(loss)
        assert all(torch.equal(start[key], after[key]) for key in start)


def test_bad_settings_are_one_sentence() -> None:
    for wrong, said in (
        ({"dim": 0}, "dim is 0; it must be at least 1."),
        ({"length": 0}, "length is 0"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1."),
        ({"loss": "softmx"}, "Unknown loss 'softmx'"),
        ({"heads": 3}, "heads is 3; it must be at least 1 and divide dim, which is 50."),
        ({"blocks": 0}, "blocks is 0"),
    ):
        with pytest.raises(TacitError, match=said):
            SasRec(**wrong)  # type: ignore[arg-type]
