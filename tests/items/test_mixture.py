"""The bi-level fusion: counts of the papers, gradients by the chain rule, and a router that is
personal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.parts import HistoryRows
from tacit.core.types import ITEMS, Initializer, Task
from tacit.data.batches import draw_block, history_of_users
from tacit.data.dataset import FeatureTable, Modalities
from tacit.data.protocol import CLEAN
from tacit.data.sampling import samples_per_user
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.scoring import Scorer, with_history
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.methods import METHODS, fcf, fedavg, fedmf, fedneumf, fedrap, pfedrec
from tacit.parts.mixture import Mixture
from tacit.parts.server import ServerSteps
from tacit.parts.views import SingleView
from tacit.plugins.channel import clip, gaussian
from tacit.plugins.fedrkg import fedrkg
from tacit.plugins.fusion import fedmr, fedvlr, id_only_control
from tacit.testing.play import algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged, with_content

TRAIN = split_dataset(with_content(ragged()), CLEAN).train
FEW = split_dataset(with_content(ragged(n_users=10, n_items=16)), CLEAN).train
SIZES = {
    "KU": (204, 560),
    "Dance": (10_231, 1_676),
    "Food": (5_990, 1_125),
    "Movie": (15_908, 2_528),
}


def task(name: str) -> Task:
    users, items = SIZES[name]
    empty = FeatureTable(np.zeros((items, 512), np.float32), np.zeros(items, bool))
    return Task(users, items, Modalities({"text": empty, "image": empty}))


def one_client(algorithm: ComposedAlgorithm) -> int:
    """Parameters of the whole model that one client takes part in."""
    parameters = (*algorithm.shared.values(), *algorithm.private.values())
    return sum(init.count for init in parameters)


@pytest.mark.parametrize("base", [fcf, fedavg, lambda: pfedrec(dim=64)])
@pytest.mark.parametrize("name", SIZES)
def test_counts_of_fedmr_table_5(base, name: str) -> None:  # type: ignore[no-untyped-def]
    items = SIZES[name][1]
    printed = {"KU": 455_620, "Dance": 1_027_012, "Food": 744_900, "Movie": 1_463_236}
    assert one_client(compose(base(), task(name))) == 64 * items + 65
    assert one_client(compose(fedmr(base()), task(name))) == printed[name]


@pytest.mark.parametrize("name", SIZES)
def test_counts_of_fedncf(name: str) -> None:
    """The papers count all users' vectors: 128 (U + I) + 10,945, with fusion 512 I + 168,835 more.

    Movie's printed vanilla count is that of width 32; see the specification.
    """
    users, items = SIZES[name]
    for method, more in ((fedneumf(), 0), (fedmr(fedneumf()), 512 * items + 168_835)):
        algorithm = compose(method, task(name))
        counted = one_client(algorithm) + (users - 1) * 128
        assert counted == 128 * (users + items) + 10_945 + more


def test_counts_of_single_blocks() -> None:
    parameters = Mixture().shared(64, task("KU").content) | Mixture().private(64, None)

    def total(prefix: str) -> int:
        return sum(init.count for name, init in parameters.items() if name.startswith(prefix))

    assert total("project.") == 98_496
    assert total("view.perceptron.") == 32_960
    assert total("view.gate.") == 24_832
    assert total("router.") == 12_547
    assert total("") == 168_835


@pytest.mark.parametrize("name", SIZES)
def test_counts_of_fedvlr_table_3(name: str) -> None:
    """Three views, a router and a predictor: what a client holds when views are broadcast."""
    items = SIZES[name][1]
    algorithm = compose(fedvlr(fcf()), task(name))
    assert algorithm.floats_on_client == 192 * items + 12_547 + 65
    assert algorithm.floats_up == algorithm.floats_down == 192 * items
    assert algorithm.floats_once == 0


def test_bytes_where_clients_make_the_views() -> None:
    algorithm = compose(fedmr(fcf()), task("KU"))
    assert algorithm.floats_up == 512 * 560 + 168_835 - 12_547  # the router stays
    assert algorithm.floats_once == 2 * 512 * 560  # text and image, once


def test_fedrap_counts() -> None:
    assert one_client(compose(fedrap(dim=64), task("KU"))) == 71_745
    assert one_client(compose(fedmr(fedrap(dim=64)), task("KU"))) == 742_340


BASES = {
    "fedavg": lambda: fedavg(dim=4),
    "fcf": lambda: fcf(dim=4),
    "fedneumf": lambda: fedneumf(dim=8),
    "fedncf": lambda: METHODS["fedncf"].build(dim=4, layers=(3, 1), rate=0.1, per_item=1.0),
    "pfedrec": lambda: pfedrec(dim=4, per_item=1.0),
    "fedmf": lambda: fedmf(dim=4, per_item=1.0),
    "fedrap": lambda: fedrap(dim=4, rate=0.1, item_rate=1.0),
}
SETTINGS = {
    "fedmr": lambda method: fedmr(method, id_width=5),
    "fedvlr": lambda method: fedvlr(method, id_width=5),
    "id_only": lambda method: id_only_control(method, id_width=5),
    "all operators": lambda method: fedmr(
        method, "sum+mlp+gate+true_gate+attention+single", id_width=5
    ),
    "shared router": lambda method: fedmr(method, id_width=5, router="shared"),
    "per item": lambda method: fedmr(method, id_width=5, rule="item"),
    "changes": lambda method: fedmr(method, id_width=5, sends="change"),
    "last batch": lambda method: fedmr(method, id_width=5, sends="last_gradient"),
    "clipped": lambda method: clip(fedmr(method, id_width=5), 0.5),
    "clipped views": lambda method: clip(fedvlr(method, id_width=5), 0.5),
}


def small(base: str, setting: str) -> Method:
    method: Method = SETTINGS[setting](BASES[base]())
    local = method.local
    inner = local.inner or local
    short = replace(inner, batch=16, epochs=2)
    if local is not inner:
        return replace(method, local=replace(local, inner=short))  # type: ignore[type-var]
    return replace(method, local=short)


def assert_engines_agree(
    method: Method, train: TrainView = TRAIN, block: int = 7, rounds: int = 3
) -> None:
    reference = trace(method, train, LoopEngine(torch.float64), rounds=rounds)
    found = trace(method, train, CohortEngine(torch.float64, block=block), rounds=rounds)
    for name, value in reference.end.items():
        allowed = 1e-9 * max(reference.change(name), float(value.abs().max()))
        assert same_to(value, found.end[name], allowed), name


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("base", BASES)
def test_engines_and_placements_agree(base: str, setting: str) -> None:
    """The loop makes the views of FedMR on each client, the cohort once on the server."""
    method = small(base, setting)
    with_server_views = algorithm_for(method, FEW).with_server_views is not None
    private_rows = base == "fedrap"
    assert with_server_views == (not private_rows and setting not in ("changes", "clipped"))
    assert_engines_agree(method, FEW, block=3, rounds=2)


@pytest.mark.parametrize("order", ["guided first", "fused first"])
def test_together_with_guidance(order: str) -> None:
    base = fcf(dim=4)
    if order == "guided first":
        method = fedmr(fedrkg(base, every=2, beta=0.5, gate_rate=0.1), id_width=5)
    else:
        method = fedrkg(fedmr(base, id_width=5), every=2, beta=0.5, gate_rate=0.1)
    assert_engines_agree(method)
    algorithm = algorithm_for(method, TRAIN)
    assert algorithm.sends_changes(1)  # the operators go in every round
    one, two = (algorithm.traffic(pytest.fail, [24] * n, width=1).total for n in (1, 2))
    tables = TRAIN.n_users * TRAIN.n_items * 5
    assert (two - one) - one == 2 * tables  # the second round has guidance


def test_placements_give_the_same_numbers() -> None:
    one = trace(fedmr(fcf(dim=4), id_width=5), TRAIN, LoopEngine(torch.float64))
    two = trace(fedmr(fcf(dim=4), id_width=5, placement="server"), TRAIN, LoopEngine(torch.float64))
    for name, value in one.end.items():
        assert same_to(value, two.end[name], 1e-9 * max(1.0, one.change(name))), name


def test_without_its_layer_norm_fedvlr_has_the_numbers_of_fedmr() -> None:
    plain, normed = (
        trace(fedvlr(fcf(dim=4), id_width=5, normalise=normalise), TRAIN, LoopEngine(torch.float64))
        for normalise in (False, True)
    )
    one = trace(fedmr(fcf(dim=4), id_width=5), TRAIN, LoopEngine(torch.float64))
    for name, value in one.end.items():
        assert same_to(value, plain.end[name], 1e-9 * max(1.0, one.change(name))), name
    assert not same_to(one.end["items"], normed.end["items"], 1e-6)


def test_operators_step_by_plain_descent_where_that_is_asked_for() -> None:
    """FedMR's algorithm 1 has descent; Adam is the default. One step of descent moves a parameter
    by the rate times its mean gradient, so that twice the rate moves it twice as far."""
    moved = {}
    for rate in (0.01, 0.02):
        method = fedmr(fcf(dim=4), id_width=5, encoder="sgd", encoder_rate=rate)
        found = trace(method, TRAIN, LoopEngine(torch.float64), rounds=1)
        moved[rate] = {name: found.end[name] - found.start[name] for name in found.end}
    names = [name for name in moved[0.01] if name.startswith("view")]
    assert names
    for name in names:
        assert same_to(2 * moved[0.01][name], moved[0.02][name], 1e-12), name
    assert any(moved[0.01][name].abs().max() > 1e-6 for name in names)


def test_noise_falls_on_what_travels() -> None:
    """On gradients of the views where those travel, on gradients of table and operators else."""
    for method in (fedmr(fcf(dim=4), id_width=5), fedvlr(fcf(dim=4), id_width=5)):
        noisy = gaussian(clip(method, 1.0), 0.1)
        assert_engines_agree(noisy)
        plain = trace(clip(method, 1.0), TRAIN, CohortEngine())
        found = trace(noisy, TRAIN, CohortEngine())
        assert not torch.equal(plain.end[ITEMS], found.end[ITEMS])


def after(method: Method, rounds: int = 3) -> tuple[ComposedAlgorithm, State]:
    algorithm, engine = algorithm_for(method, TRAIN), CohortEngine(torch.float64)
    state = engine.start(algorithm, TRAIN, 0)
    for number in range(1, rounds + 1):
        who = Participation().draw(TRAIN, 0, number)
        engine.round(algorithm, TRAIN, state, who, 0)
    return algorithm, state


def weights_of(algorithm: ComposedAlgorithm, state: State, user: int) -> torch.Tensor:
    encoder = algorithm.method.items
    assert isinstance(encoder, Mixture)
    p = {**state.shared, **{name: value[user] for name, value in state.private.items()}}
    p = with_history(algorithm, p, TRAIN.history(user))
    history = {name.removesuffix("@past"): v for name, v in p.items() if name.endswith("@past")}
    view_HW = encoder.views({**p, **history}, history[ITEMS])
    return encoder.weights(p, view_HW, HistoryRows({**p, **history}, view_HW, p["weight@past"]))


def test_weights_of_views_are_a_distribution_and_differ_between_users() -> None:
    algorithm, state = after(fedmr(fcf(dim=4, rate=1.0), id_width=5, encoder_rate=0.05))
    weights = torch.stack([weights_of(algorithm, state, user) for user in range(5)])
    assert weights.shape == (5, 3)
    assert torch.allclose(weights.sum(1), torch.ones(5, dtype=torch.float64))
    assert weights.std(0).max() > 1e-3


def test_training_and_ranking_weigh_alike() -> None:
    """The loss of a batch and the ranking see the same logits for the same items."""
    algorithm, state = after(fedmr(fcf(dim=4), id_width=5))
    score_UI = Scorer(algorithm, state, train=TRAIN)(np.arange(TRAIN.n_users))
    for user in (0, 5):
        p = {**state.shared, **{name: value[user] for name, value in state.private.items()}}
        whole = with_history(algorithm, p, TRAIN.history(user))
        items = torch.from_numpy(TRAIN.positives[user])
        rows = {name: whole[name][items] for name in (ITEMS, *algorithm.content)}
        logit_N = algorithm.logits({**whole, **rows})
        assert torch.allclose(logit_N, torch.from_numpy(score_UI[user][items.numpy()]))


def test_two_users_get_different_scores_and_released_ones_do_not() -> None:
    """Without restoring, everybody ranks alike: the fault of released code, by name."""
    for restores, differ in ((True, True), (False, False)):
        method = fedmr(fcf(dim=4), id_width=5, router="shared", rule="item", restores=restores)
        algorithm, state = after(method)
        score_UI = Scorer(algorithm, state, train=TRAIN)(np.arange(2))
        assert bool(np.abs(score_UI[0] - score_UI[1]).max() > 1e-6) == differ


def test_a_client_finds_again_what_it_saved() -> None:
    """Who sits a round out has, two rounds later, exactly what it had."""
    algorithm, engine = algorithm_for(fedmr(fedrap(dim=4), id_width=5), TRAIN), CohortEngine()
    state = engine.start(algorithm, TRAIN, 0)
    engine.round(algorithm, TRAIN, state, Participation().draw(TRAIN, 0, 1), 0)
    saved = {name: value.clone() for name, value in state.private.items()}
    who = Participation(ratio=0.5).draw(TRAIN, 0, 2)
    engine.round(algorithm, TRAIN, state, who, 0)
    absent = np.setdiff1d(np.arange(TRAIN.n_users), who.user_P)
    for name, value in saved.items():
        assert torch.equal(value[absent], state.private[name][absent]), name
        assert not torch.equal(value[who.user_P], state.private[name][who.user_P]), name


def test_one_client_and_one_step_is_central_descent() -> None:
    """One client, one step, a server that descends: the step of anybody's optimiser on (D, γ)."""
    alone = TRAIN.take(np.array([3]))
    method = fedmr(fcf(dim=4, rate=0.0, epochs=1), id_width=5)
    method = replace(method, server=ServerSteps(Sgd(0.3), Sgd(0.3)))
    algorithm, engine = compose(method, Task.of(alone)), LoopEngine(torch.float64)
    state = engine.start(algorithm, alone, 0)
    before = {name: value.clone().requires_grad_() for name, value in state.shared.items()}
    engine.round(algorithm, alone, state, Participation().draw(alone, 0, 1), 0)

    draws = draw_block(
        alone,
        np.array([0]),
        samples_per_user(alone, method.sampling),
        method.sampling,
        batch=2048,
        epochs=1,
        seed=0,
        round_number=1,
    )
    item_N = torch.from_numpy(draws.item_BR[0][draws.row_TSBW[0, 0, 0]])
    label_N = torch.from_numpy(draws.label_TSBW[0, 0, 0]).double()
    p = with_history(
        algorithm,
        {**before, **{name: value[0] for name, value in state.private.items()}},
        alone.history(0),
    )
    rows = {name: p[name][item_N] for name in (ITEMS, *algorithm.content)}
    logit_N = algorithm.logits({**p, **rows})
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logit_N, label_N)
    gradients = torch.autograd.grad(loss, list(before.values()))
    for (name, value), gradient in zip(before.items(), gradients, strict=True):
        assert torch.allclose(state.shared[name], value - 0.3 * gradient, atol=1e-12), name


def test_equal_histories_make_fedavg_of_fcf() -> None:
    """With as many examples each, weights by examples are the plain mean."""
    sizes = TRAIN.positives.size_U
    same = np.flatnonzero(sizes == np.bincount(sizes).argmax())
    train = TRAIN.take(same)
    assert len(same) > 1
    one = trace(fedmr(fedavg(dim=4), id_width=5), train, CohortEngine(torch.float64))
    plain = fedmr(replace(fcf(dim=4), local=fedavg(dim=4).local), id_width=5)
    again = trace(plain, train, CohortEngine(torch.float64))
    for name, value in one.end.items():
        assert torch.allclose(value, again.end[name], atol=1e-12), name


def test_the_id_alone_with_an_identity_is_the_plain_backbone() -> None:
    items = Mixture((SingleView("id"),), (), width=4, id_width=4, id_scale=1.0, project_id=False)
    plain = fcf(dim=4)
    fused = replace(plain, items=items)
    one, two = (trace(m, TRAIN, LoopEngine(torch.float64)) for m in (plain, fused))
    assert one.end.keys() == two.end.keys()
    for name, value in one.end.items():
        assert torch.equal(value, two.end[name]), name


def test_missing_content_is_the_mean_only_where_asked() -> None:
    present_I = TRAIN.content["image"].present_I
    mean = Mixture().content(TRAIN.content)["image"]
    zero = Mixture(missing="zero").content(TRAIN.content)["image"]
    assert np.allclose(mean[~present_I], mean[present_I].mean(0), atol=1e-6)
    assert (zero[~present_I] == 0).all()
    assert np.array_equal(mean[present_I], zero[present_I])


def test_noise_and_shuffled_content_keep_norms() -> None:
    plain = Mixture().content(TRAIN.content)["text"]
    noise = Mixture(noise=("text",)).content(TRAIN.content)["text"]
    shuffled = Mixture(shuffled=True).content(TRAIN.content)["text"]
    assert np.allclose(np.linalg.norm(noise, axis=1), np.linalg.norm(plain, axis=1), atol=1e-4)
    assert not np.allclose(noise, plain)
    order = np.lexsort(shuffled.T)
    assert np.array_equal(shuffled[order], plain[np.lexsort(plain.T)])
    assert not np.array_equal(shuffled, plain)


def test_without_an_input_its_content_does_not_matter() -> None:
    image = TRAIN.content["image"].take(np.arange(TRAIN.n_items)[::-1])
    other = replace(TRAIN, content=Modalities({**TRAIN.content.tables, "image": image}))
    method = fedmr(fcf(dim=4), id_width=5, without="image", noise="")
    one = trace(method, TRAIN, CohortEngine(torch.float64))
    two = trace(method, other, CohortEngine(torch.float64))
    assert torch.equal(one.end[ITEMS], two.end[ITEMS])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TacitError, match="no content called 'audio'"):
        compose(fedmr(fcf(), modalities="text+audio"), Task.of(TRAIN))
    with pytest.raises(TacitError, match="Unknown view 'mpl'; did you mean 'mlp'"):
        fedmr(fcf(), "mpl")
    with pytest.raises(TacitError, match="does so already"):
        fedmr(fedmr(fcf()))
    with pytest.raises(TacitError, match="cannot be taken away"):
        Mixture(without=("audio",)).row(Initializer((64,)))
    with pytest.raises(TacitError, match="use ServerSteps"):
        compose(replace(fedmr(fcf()), server=fcf().server), Task.of(TRAIN))


def test_past_of_users_counts_repeats_once() -> None:
    lists = TRAIN.positives
    item_BH, weight_BH = history_of_users(lists, np.array([0, 1]))
    assert item_BH.shape == weight_BH.shape
    assert np.allclose(weight_BH.sum(1), 1.0)
