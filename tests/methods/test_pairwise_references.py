"""BPR-MF and LightGCN, against numbers by hand, dense algebra and autograd."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from tacit.central.graph import each_layer, propagate
from tacit.central.rows import StepRule
from tacit.central.samples import Batch, Triples, draw_triples
from tacit.core.optim import Adam, Sgd
from tacit.core.types import Params
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.methods.pairwise_references import BprMf, LightGcn, Neighbours
from tacit.testing import ragged

ONE = Sampling(negatives=1)
TRAIN = split_dataset(ragged(), CLEAN).train
OPTIMISERS = (
    Adam(rate=0.01, lifetime="persistent"),
    Adam(rate=0.01, weight_decay=0.1),
    Sgd(rate=0.3, weight_decay=0.01),
)


def test_every_interaction_is_met_once_beside_an_item_that_is_not_there() -> None:
    drawn = draw_triples(TRAIN, ONE, seed=0, number=1)
    pairs = sorted(zip(drawn.user_N.tolist(), drawn.positive_N.tolist(), strict=True))
    known = sorted(zip(TRAIN.positives.list_N, TRAIN.positives.item_N, strict=True))
    assert pairs == known
    assert not {*known} & {*zip(drawn.user_N, drawn.negative_N, strict=True)}
    later = draw_triples(TRAIN, ONE, seed=0, number=2)
    assert not np.array_equal(np.sort(drawn.negative_N), np.sort(later.negative_N))


# BPR-MF.


def test_one_step_of_bprmf_by_hand() -> None:
    """p = 1, q = (2, -1), b = (0.5, 0): x = 3.5, and sigmoid(-3.5) = 0.0293122308. At rate 2 and
    weight decay 0.1 a row moves by -2 (slope + 0.1 row)."""
    slope = 0.0293122308
    tables = {"user": [[1.0]], "items": [[2.0], [-1.0]], "bias": [[0.5], [0.0]]}
    one = Triples(np.array([0]), np.array([0]), np.array([1]))
    expected = {
        "user": [1 + 2 * (3 * slope - 0.1)],
        "items": [2 + 2 * (slope - 0.2), -1 - 2 * (slope - 0.1)],
        "bias": [0.5 + 2 * (slope - 0.05), -2 * slope],
    }
    for batch in (1, 8):  # rows where they lie, and rows by batches
        model = BprMf(dim=1, batch=batch, optimiser=Sgd(rate=2.0, weight_decay=0.1))
        found = {name: torch.tensor(value, dtype=torch.float64) for name, value in tables.items()}
        rule = StepRule.of(model.optimiser, 2.0, np.float64)
        assert model.descend(found, one, rule) == pytest.approx(0.0297504, abs=1e-6)
        for name, value in expected.items():
            assert found[name].flatten().tolist() == pytest.approx(value, abs=1e-8), name


def plain_epoch(model: BprMf, parameters: Params, number: int) -> tuple[Params, float]:
    """An epoch by autograd on whole tables, then the optimiser's own code on the rows that a batch
    has read."""
    parameters = {name: value.clone() for name, value in parameters.items()}
    names = [name for name in parameters if "/" not in name]
    if model.optimiser.lifetime == "round":
        for name in parameters:
            if "/" in name:
                parameters[name].zero_()
    drawn, total = draw_triples(TRAIN, ONE, seed=1, number=number), 0.0
    rate = model.optimiser.rate_at(number, TRAIN.n_items)
    for low in range(0, len(drawn), model.batch):
        some = drawn.part(low, low + model.batch)
        whole = {name: parameters[name].clone().requires_grad_() for name in names}
        p = whole["user"][some.user_N]
        x = (p * (whole["items"][some.positive_N] - whole["items"][some.negative_N])).sum(1)
        if model.bias:
            x = x + (whole["bias"][some.positive_N] - whole["bias"][some.negative_N])[:, 0]
        loss = -torch.nn.functional.logsigmoid(x).mean()
        loss.backward()
        total += loss.item() * len(some)
        for name in names:
            read = some.user_N if name == "user" else np.r_[some.positive_N, some.negative_N]
            rows = torch.from_numpy(np.unique(read))
            states = [full for full in parameters if full.startswith(f"{name}/")]
            state = {full.split("/")[1]: parameters[full][rows] for full in states}
            gradient = whole[name].grad
            assert gradient is not None
            value, state = model.optimiser.update(
                parameters[name][rows], gradient[rows], state, rate
            )
            parameters[name][rows] = value
            for key, moment in state.items():
                parameters[f"{name}/{key}"][rows] = moment
    return parameters, total / len(drawn)


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=("adam", "adam-decay", "sgd"))
@pytest.mark.parametrize(("bias", "batch"), [(True, 32), (False, 32), (True, 1)])
def test_epochs_are_those_of_autograd(optimiser: Adam | Sgd, bias: bool, batch: int) -> None:
    model = BprMf(dim=4, batch=batch, bias=bias, optimiser=optimiser)
    by_hand = found = expected = model.start(TRAIN, 1, torch.float64)
    other = type("Other", (BprMf,), {})(dim=4, batch=batch, bias=bias, optimiser=optimiser)
    assert model.kernel == "bpr"
    assert other.kernel is None
    for number in (1, 2):
        found, loss = model.epoch(found, TRAIN, 1, number)
        by_hand, by_hand_loss = other.epoch(by_hand, TRAIN, 1, number)
        expected, plain_loss = plain_epoch(model, expected, number)
        assert loss == pytest.approx(plain_loss, abs=1e-12)
        assert by_hand_loss == pytest.approx(plain_loss, abs=1e-12)
    for name, value in expected.items():
        assert torch.allclose(found[name], value, rtol=0, atol=1e-10), name
        assert torch.allclose(by_hand[name], value, rtol=0, atol=1e-10), name


def test_a_newcomer_of_bprmf_is_fitted_to_its_own_items() -> None:
    model = BprMf(dim=4, batch=1, optimiser=Sgd(rate=0.1))
    start = model.start(TRAIN, 0)
    start |= {"items": 3 * torch.eye(4), "bias": torch.zeros(4, 1)}
    score_I = model.score_newcomer(start, History(np.array([2])), name=9, seed=0, epochs=30)
    assert score_I.argmax() == 2
    assert torch.equal(start["items"], 3 * torch.eye(4))


# LightGCN.


def dense(train: TrainView) -> np.ndarray:
    """The whole normalised graph, users before items, written out."""
    n, whole = train.n_users, train.n_users + train.n_items
    edge = np.zeros((whole, whole))
    edge[train.positives.list_N, n + train.positives.item_N] = 1.0
    edge += edge.T
    degree = edge.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0.0)
    return root[:, None] * edge * root


def known_of(train: TrainView) -> Neighbours:
    return LightGcn().known(train, torch.float64, torch.device("cpu"))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_layers_are_powers_of_the_dense_graph(count: int) -> None:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((TRAIN.n_users + TRAIN.n_items, 3))
    users, items = torch.from_numpy(rows).split([TRAIN.n_users, TRAIN.n_items])
    found = torch.cat(propagate(known_of(TRAIN).graph, users, items, count))
    power = [np.linalg.matrix_power(dense(TRAIN), k) @ rows for k in range(count + 1)]
    assert np.allclose(found, np.mean(power, axis=0))


def test_a_graph_by_hand() -> None:
    """{0, 1} and {1}: degrees 2 and 1, 1 and 2. An interaction that is there twice counts once."""
    lists = Lists.from_pairs(np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]), n_lists=2)
    train = TrainView(2, lists, np.array([1, 2], np.uint64), Lists.empty(2))
    known = known_of(train)
    to_user = known.graph.to_users @ torch.eye(2, dtype=torch.float64)
    assert np.allclose(to_user, [[2**-0.5, 0.5], [0.0, 2**-0.5]])
    assert known.root_I.tolist() == pytest.approx([1, 2**0.5])


def test_the_slope_of_a_batch_is_that_of_autograd() -> None:
    model = LightGcn(dim=3, layers=2, penalty=0.5)
    parameters = model.start(TRAIN, 0, torch.float64)
    drawn = draw_triples(TRAIN, ONE, seed=0, number=1).part(0, 40)
    batch = Batch(*(torch.from_numpy(column_N) for column_N in drawn.arrays))
    known, generator = known_of(TRAIN), np.random.default_rng(0)
    loss, slopes = model.slope(model.learnt(parameters), known, batch, generator)
    user, items = (parameters[name].clone().requires_grad_() for name in ("user", "items"))
    rows, edge = torch.cat([user, items]), torch.from_numpy(dense(TRAIN))
    mean = (rows + edge @ rows + edge @ edge @ rows) / 3
    n = TRAIN.n_users
    x = (mean[drawn.user_N] * (mean[n + drawn.positive_N] - mean[n + drawn.negative_N])).sum(1)
    ranked = -torch.nn.functional.logsigmoid(x).mean()
    named = (user[drawn.user_N], items[drawn.positive_N], items[drawn.negative_N])
    penalty = 0.5 / 2 * torch.stack([(part**2).sum() for part in named]).sum() / len(drawn)
    assert loss.item() == pytest.approx(40 * ranked.item(), abs=1e-12)
    for slope, expected in zip(
        slopes.values(), torch.autograd.grad(ranked + penalty, (user, items)), strict=True
    ):
        assert torch.allclose(slope, expected, atol=1e-12)


def test_without_layers_one_step_is_that_of_bprmf() -> None:
    """No graph, no penalty, plain descent and everything in one batch."""
    gcn = LightGcn(dim=3, layers=0, penalty=0.0, batch=10**6, optimiser=Sgd(rate=0.7))
    mf = BprMf(dim=3, bias=False, batch=10**6, optimiser=Sgd(rate=0.7))
    start = gcn.start(TRAIN, 0, torch.float64)
    ours, loss = gcn.epoch(start, TRAIN, 0, 1)
    theirs, other_loss = mf.epoch({name: start[name] for name in ("user", "items")}, TRAIN, 0, 1)
    assert loss == pytest.approx(other_loss)
    assert torch.allclose(ours["items"], theirs["items"], atol=1e-12)
    assert not torch.equal(ours["items"], start["items"])
    scores = (model.score(found, [], np.arange(4)) for model, found in ((gcn, ours), (mf, theirs)))
    assert np.allclose(*scores)


def test_a_newcomer_of_lightgcn_without_a_row_of_its_own() -> None:
    """Somebody whose first row is zero and who is met by nobody else: the same scores as for a user
    of the graph, where items do not hear of it."""
    model = LightGcn(dim=3, layers=2)
    parameters = model.start(TRAIN, 0, torch.float64)
    item_H = TRAIN.history(4).item_H
    found_I = model.score_newcomer(parameters, History(item_H), name=1, seed=0, epochs=3)
    first = torch.cat([parameters["user"], parameters["items"]])
    steps = [rows[TRAIN.n_users :].numpy() for rows in each_layer(known_of(TRAIN).graph, first, 2)]
    count_I = np.maximum(np.bincount(TRAIN.positives.item_N, minlength=TRAIN.n_items), 1)
    weight_H = 1 / np.sqrt(count_I[item_H] * len(item_H))
    user_D = sum(weight_H @ items[item_H] for items in steps[:-1]) / 3
    mean_ID = sum(steps) / 3
    assert np.allclose(found_I, mean_ID @ user_D)


@pytest.mark.parametrize("model", [LightGcn(dim=5), BprMf(dim=5), BprMf(dim=5, bias=False)])
def test_how_many_parameters(model: LightGcn | BprMf) -> None:
    held = sum(value.numel() for value in model.first_values(TRAIN, 0, torch.float32).values())
    assert held == model.n_parameters(TRAIN.n_users, TRAIN.n_items)


@pytest.mark.parametrize("name", ["bprmf", "lightgcn"])
def test_overriding_changes_what_is_ranked(name: str) -> None:
    parent = type(resolve(name).method)

    class Steeper(parent):  # type: ignore[misc, valid-type]
        def slope(self, *known: object) -> tuple[float, object]:
            loss, slopes = super().slope(*known)
            return loss, {key: 3 * value for key, value in slopes.items()}

    plain = replace(resolve(name).method, dim=4, optimiser=Sgd(0.1))
    steeper = Steeper(**{field.name: getattr(plain, field.name) for field in fields(plain)})
    start = plain.start(TRAIN, 0)
    ends = [model.epoch(start, TRAIN, 0, 1)[0] for model in (plain, steeper)]
    scores = [plain.score(end, [], np.arange(3)) for end in ends]
    assert not np.allclose(*scores)


def test_bad_settings_are_one_sentence() -> None:
    for name, setting, said in (
        ("bprmf", "batch=0", "batch is 0; it must be at least 1."),
        ("lightgcn", "layers=-1", "layers is -1 and penalty 0.0001; neither may be negative."),
    ):
        with pytest.raises(TacitError, match=said):
            resolve(name, sets=[setting])
