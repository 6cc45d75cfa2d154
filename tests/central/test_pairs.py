"""Central models of pairs: gradients, epochs, newcomers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.central.pairs import PairModel
from tacit.central.rows import StepRule
from tacit.central.samples import PairSamples, draw_pairs
from tacit.central.training import TOWER
from tacit.core.optim import Adam, Sgd
from tacit.core.types import Params
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History
from tacit.errors import TacitError
from tacit.methods import Mf, Ncf, NeuMf
from tacit.testing.synthetic import checkerboard, ragged

TRAIN = split_dataset(ragged(), CLEAN).train
MODELS = (
    Mf(dim=4, batch=32),
    Ncf(dim=4, batch=32, layers=(5, 3)),
    NeuMf(dim=4, batch=32, layers=(5, 3), product=2),
)
OPTIMISERS = (
    Adam(rate=0.01, lifetime="persistent"),
    Adam(rate=0.01, weight_decay=0.1),
    Sgd(rate=3.0, decay=0.5),
)
QUICK = Adam(rate=0.01, lifetime="persistent")
# Wider, for a tower of three units may die before it has learnt anything.
LEARNERS = tuple(kind(dim=8, batch=64, optimiser=QUICK) for kind in (Mf, Ncf, NeuMf))


def name_of(model: PairModel) -> str:
    return type(model).__name__


each_model = pytest.mark.parametrize("model", MODELS, ids=name_of)
each_learner = pytest.mark.parametrize("model", LEARNERS, ids=name_of)


def plain_epoch(model: PairModel, parameters: Params, number: int) -> tuple[Params, float]:
    """An epoch without any trick: autograd on whole tables, then the optimiser's own code on the
    rows that the batch has read."""
    parameters = {parameter: value.clone() for parameter, value in parameters.items()}
    optimiser = model.optimiser
    names = [parameter for parameter in parameters if "/" not in parameter]
    states = {
        parameter: [n for n in parameters if n.startswith(parameter + "/")] for parameter in names
    }
    if optimiser.lifetime == "round":
        for name in parameters:
            if "/" in name:
                parameters[name].zero_()
    drawn = draw_pairs(TRAIN, model.sampling, seed=1, number=number)
    rate = optimiser.rate_at(number, TRAIN.n_items)
    total = 0.0
    for low in range(0, len(drawn), model.batch):
        part = slice(low, low + model.batch)
        read = {
            parameter: torch.from_numpy(drawn.user_N[part]) for parameter in model.user_tables()
        }
        read |= {
            parameter: torch.from_numpy(drawn.item_N[part]) for parameter in model.item_tables()
        }
        whole = {parameter: parameters[parameter].clone().requires_grad_() for parameter in names}
        p = {parameter: whole[parameter][rows] for parameter, rows in read.items()}
        begin = 0
        for parameter, init in model.tower().items():
            p[parameter] = whole[TOWER][0, begin : begin + init.count].reshape(init.shape)
            begin += init.count
        label = torch.from_numpy(drawn.label_N[part]).double()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model.logit(p), label)
        loss.backward()
        total += loss.item() * len(label)
        for parameter in names:
            rows = torch.unique(read[parameter]) if parameter in read else torch.tensor([0])
            state = {name.split("/")[1]: parameters[name][rows] for name in states[parameter]}
            gradient = whole[parameter].grad
            assert gradient is not None
            value, state = optimiser.update(
                parameters[parameter][rows], gradient[rows], state, rate
            )
            parameters[parameter][rows] = value
            for key, moment in state.items():
                parameters[f"{parameter}/{key}"][rows] = moment
    return parameters, total / len(drawn)


@each_model
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=("adam", "adam-decay", "sgd"))
def test_epochs_are_those_of_autograd(model: PairModel, optimiser: Adam | Sgd) -> None:
    model = replace(model, optimiser=optimiser)
    found = expected = model.start(TRAIN, 1, torch.float64)
    for number in (1, 2):
        found, loss = model.epoch(found, TRAIN, 1, number)
        expected, plain_loss = plain_epoch(model, expected, number)
        assert loss == pytest.approx(plain_loss, abs=1e-12)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.allclose(found[name], value, rtol=0, atol=1e-10), name


def test_one_step_of_mf_by_hand() -> None:
    """p = 1, q = (2, -1), one positive and one negative: logits 2 and -1."""
    model = Mf(dim=1, batch=2, optimiser=Sgd())
    parameters = {
        "user": torch.ones(1, 1, dtype=torch.float64),
        "items": torch.tensor([[2.0], [-1.0]], dtype=torch.float64),
    }
    both = PairSamples(np.array([0, 0]), np.array([0, 1]), np.array([1, 0], np.uint8))
    loss = model.descend(parameters, both, StepRule.of(Sgd(), 1.0, np.float64))
    # log(1 + e^-2) + log(1 + e^-1); slopes (0.880797 - 1) / 2 and 0.268941 / 2
    assert loss == pytest.approx(0.1269280110 + 0.3132616875, abs=1e-9)
    assert parameters["user"].item() == pytest.approx(1.2536736327, abs=1e-9)
    assert parameters["items"].flatten().tolist() == pytest.approx(
        [2.0596014611, -1.1344707107], abs=1e-9
    )


def test_large_logits_neither_overflow_nor_stop() -> None:
    parameters = {"user": torch.tensor([[1.0]]), "items": torch.tensor([[500.0], [-500.0]])}
    wrong = PairSamples(np.array([0, 0]), np.array([0, 1]), np.array([0, 1], np.uint8))
    loss = Mf(dim=1, optimiser=Sgd()).descend(
        parameters, wrong, StepRule.of(Sgd(), 1.0, np.float32)
    )
    assert loss == pytest.approx(1000.0)
    assert parameters["items"].flatten().tolist() == pytest.approx([499.5, -499.5])


@each_learner
def test_the_loss_goes_down_and_the_input_stays(model: PairModel) -> None:
    train = split_dataset(checkerboard(), CLEAN).train
    parameters = model.start(train, 0)
    kept = {name: value.clone() for name, value in parameters.items()}
    losses, now = [], parameters
    for number in range(1, 9):
        now, loss = model.epoch(now, train, 0, number)
        losses.append(loss)
    assert losses[-1] < 0.8 * losses[0]
    assert all(torch.equal(parameters[name], value) for name, value in kept.items())


@each_model
def test_scores_are_the_logits_of_single_pairs(model: PairModel) -> None:
    parameters, _ = model.epoch(model.start(TRAIN, 0, torch.float64), TRAIN, 0, 1)
    score_BI = model.score(parameters, [], np.array([5, 2]))
    assert score_BI.shape == (2, TRAIN.n_items)
    tower, begin = {}, 0
    for name, init in model.tower().items():
        tower[name] = parameters[TOWER][0, begin : begin + init.count].reshape(init.shape)
        begin += init.count
    for b, user in enumerate((5, 2)):
        for item in (0, 7, 49):
            pair = {name: parameters[name][[user]] for name in model.user_tables()}
            pair |= {name: parameters[name][[item]] for name in model.item_tables()}
            assert score_BI[b, item] == pytest.approx(model.logit(tower | pair).item(), abs=1e-12)


def test_parameters_are_counted_as_printed() -> None:
    """NCF 64-32-16-8-1 and NeuMF with 40 ends."""
    assert Ncf().start(TRAIN, 0)[TOWER].numel() == 64 * 32 + 32 + 32 * 16 + 16 + 16 * 8 + 8 + 9
    assert NeuMf().start(TRAIN, 0)[TOWER].numel() == 64 * 32 + 32 + 32 * 16 + 16 + 16 * 8 + 8 + 41


def test_a_users_first_row_depends_on_the_id_alone() -> None:
    moved = replace(TRAIN, user_key_U=TRAIN.user_key_U[::-1].copy())
    one, two = Mf().start(TRAIN, 0)["user"], Mf().start(moved, 0)["user"]
    assert torch.equal(one.flip(0), two)
    assert one.std().item() == pytest.approx(0.01, rel=0.1)


@each_learner
def test_a_newcomer_of_a_colour_gets_items_of_that_colour(model: PairModel) -> None:
    """A few epochs only: the items it belongs to are drawn as its negatives here."""
    dataset = checkerboard()
    train = split_dataset(dataset, CLEAN).train
    colour_I = np.array([int(name[1:]) % 2 for name in dataset.interactions.items])
    right = []  # several seeds: in one of them rounding, another on each processor, moves an item
    for seed in range(4):
        parameters = model.start(train, seed)
        for number in range(1, 7):
            parameters, _ = model.epoch(parameters, train, seed, number)
        kept = {parameter: value.clone() for parameter, value in parameters.items()}
        for colour in (0, 1):
            history = np.flatnonzero(colour_I == colour)[:8]
            score_I = model.score_newcomer(
                parameters, History(history), name=99, seed=seed, epochs=4
            )
            others = np.setdiff1d(np.arange(train.n_items), history)
            best = others[np.argsort(-score_I[others])[:12]]
            right.append((colour_I[best] == colour).mean())
        assert all(torch.equal(parameters[parameter], value) for parameter, value in kept.items())
    assert np.mean(right) > 0.85  # by chance 0.375: twelve of its colour among 32


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Mf(dim=0), "dim is 0"),
        (lambda: Mf(batch=0), "batch is 0"),
        (lambda: Ncf(layers=()), "layers is []"),
        (lambda: NeuMf(product=0), "product is 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(build, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TacitError) as caught:
        build()
    assert words in str(caught.value)
