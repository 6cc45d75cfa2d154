"""Whole rounds: the server's step by hand, drop-out, and engines that agree under every option."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData, ClientState
from tacit.core.client import local_update
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.data.batches import draw_block
from tacit.data.protocol import CLEAN, PFEDREC
from tacit.data.sampling import Sampling, samples_per_user
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.accelerators import why_not_fused
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants, Participation
from tacit.engines.round import Engine
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.methods import fedmf, fedncf, local_only, pfedrec
from tacit.parts.backbones import LinearHead, MlpHead
from tacit.parts.channel import Clip, Dense, Gaussian
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.server import Mean
from tacit.parts.sync import Replace
from tacit.plugins import dual_personalised
from tacit.plugins.fedrkg import fedrkg
from tacit.testing.play import Trace, algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged

WIDE = torch.float64


def view(*histories: list[int], n_items: int, hidden: Lists | None = None) -> TrainView:
    users = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    lists = Lists.from_pairs(users, np.concatenate(histories), len(histories))
    keys = np.arange(101, 101 + len(histories), dtype=np.uint64)
    return TrainView(n_items, lists, keys, hidden or Lists.empty(len(histories)))


def few() -> TrainView:
    """Two clients with 3 and 1 positives on 30 items, so that most rows stay untouched."""
    return view([0, 1, 2], [2], n_items=30)


def engines() -> list[Engine]:
    return [
        LoopEngine(WIDE),
        CohortEngine(WIDE, fused="never"),
        CohortEngine(WIDE, fused="always"),
    ]


def single_changes(method: Method, train: TrainView, state: State) -> list[np.ndarray]:
    """What each client alone would send: its change of the item table, dense."""
    algorithm = algorithm_for(method, train)
    changes = []
    for user in range(train.n_users):
        draws = draw_block(
            train,
            np.array([user]),
            samples_per_user(train, method.sampling),
            method.sampling,
            batch=method.local.batch,
            epochs=method.local.epochs,
            seed=0,
            round_number=1,
            dtype=np.float64,
        )
        private = {name: value[user] for name, value in state.private.items()}
        upload = local_update(
            algorithm, state.shared, ClientState(private), ClientData.of_draws(draws), 1
        ).upload
        change_ID = np.zeros(tuple(state.shared["items"].shape))
        change_ID[upload.item_R.numpy()] = upload.change["items"].numpy()
        changes.append(change_ID)
    return changes


@pytest.mark.parametrize("engine", engines(), ids=("loop", "cohort", "fused"))
@pytest.mark.parametrize(
    ("weights", "share"), [("uniform", (0.5, 0.5)), ("examples", (0.75, 0.25))]
)
def test_two_clients_by_hand(engine: Engine, weights: Any, share: tuple[float, float]) -> None:
    train = few()
    method = replace(fedmf(dim=3), server=Mean(weights=weights))
    algorithm = algorithm_for(method, train)
    state = engine.start(algorithm, train, 0)
    before = state.shared["items"].numpy().copy()
    one, two = single_changes(method, train, state)
    engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
    expected = before + share[0] * one + share[1] * two
    assert np.allclose(state.shared["items"].numpy(), expected, rtol=0, atol=1e-12)
    untouched = (one == 0).all(1) & (two == 0).all(1)
    assert 5 < untouched.sum() < 30
    assert np.array_equal(state.shared["items"].numpy()[untouched], before[untouched])
    assert state.round_number == 1


@pytest.mark.parametrize("engine", engines(), ids=("loop", "cohort", "fused"))
def test_who_drops_out_keeps_what_it_learnt_and_sends_nothing(engine: Engine) -> None:
    train, method = few(), pfedrec(dim=3)
    algorithm = algorithm_for(method, train)
    state = engine.start(algorithm, train, 0)
    before = state.copy()
    one, _ = single_changes(method, train, state)
    dropped = Participants(np.array([0, 1]), np.array([True, False]))
    engine.round(algorithm, train, state, dropped, 0)
    # the mean is over the one that reported: its whole change, not half of it
    expected = before.shared["items"].numpy() + one
    assert np.allclose(state.shared["items"].numpy(), expected, rtol=0, atol=1e-12)
    assert not torch.equal(state.private["head.w"][1], before.private["head.w"][1])
    assert state.tuned is not None
    assert state.tuned.count_U[1] > 0
    assert state.fresh_U.tolist() == [True, True]
    item_R, row_RD = state.tuned.of(1)
    global_RD = before.shared["items"][torch.from_numpy(item_R.astype(np.int64))]
    assert (row_RD - global_RD).abs().max() > 0.1


@pytest.mark.parametrize("engine", engines(), ids=("loop", "cohort", "fused"))
def test_when_nobody_reports_the_global_parameters_stay(engine: Engine) -> None:
    train = few()
    method = replace(pfedrec(dim=3), channel=(Dense(), Clip(), Gaussian()))
    algorithm = algorithm_for(method, train)
    state = engine.start(algorithm, train, 0)
    before = state.copy()
    silent = Participants(np.array([0, 1]), np.array([False, False]))
    engine.round(algorithm, train, state, silent, 0)
    assert torch.equal(state.shared["items"], before.shared["items"])  # no noise either
    assert not torch.equal(state.private["head.w"], before.private["head.w"])
    assert state.loss > 0
    nobody = Participants(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    after = state.copy()
    engine.round(algorithm, train, state, nobody, 0)
    assert state.round_number == 2
    assert torch.equal(state.private["head.w"], after.private["head.w"])
    assert np.isnan(state.loss)
    assert not state.fresh_U.any()


def test_two_links_of_noise_draw_apart() -> None:
    """Equal draws would add up to (0.3 + 0.4)² = 0.49 instead of 0.09 + 0.16 = 0.25."""
    train = view([0], n_items=2000)
    link = (Dense(), Clip(1e-9), Gaussian(0.3), Gaussian(0.4))
    method = replace(fedmf(dim=8), channel=link)
    state = trace(method, train, LoopEngine(WIDE), rounds=1, participation=Participation())
    noise = state.end["items"] - state.start["items"]
    assert float(noise.var()) == pytest.approx(0.25, rel=0.05)


LINEAR = {
    "fedmf": fedmf(dim=5),
    "pfedrec": pfedrec(dim=5),
    "local_only": local_only(dim=5),
}
DEEP = {"fedncf": fedncf(dim=5, layers=(4, 1))}
DEEP["fedncf kept"] = replace(DEEP["fedncf"], sync=Replace(keep=True))
DEEP["fedncf dual"] = dual_personalised(fedncf(dim=5, layers=(4, 3, 1)))
DEEP["pfedrec, perceptron"] = replace(pfedrec(dim=5), backbone=MlpHead(5, (4, 1)))
BASES = LINEAR | DEEP


def local(method: Method, **changes: Any) -> Method:
    """The method in short batches over two epochs, with some fields of `local` changed."""
    fields = {"batch": 16, "epochs": 2, **changes}
    return replace(method, local=replace(method.local, **fields))


def with_items(method: Method, **changes: Any) -> Method:
    return local(method, items=replace(method.local.items, **changes))


# What changes in a method, by name; the battery in tacit.testing covers the plain case.
OPTIONS = {
    "redraw every epoch": lambda m: replace(local(m), sampling=Sampling(4, "epoch")),
    "redraw never": lambda m: replace(local(m), sampling=Sampling(3, "once")),
    "gradient clip": lambda m: local(m, gradient_clip=0.05),
    "adam on the model": lambda m: local(m, model=Adam(0.02)),
    "adam that lives on": lambda m: local(m, model=Adam(0.02, lifetime="persistent")),
    "adam on the items": lambda m: local(m, items=Adam(0.02)),
    "adam on both": lambda m: local(m, model=Adam(0.02, lifetime="persistent"), items=Adam(0.02)),
    "weight decay on the model": lambda m: local(m, model=Sgd(0.1, weight_decay=0.1)),
    "weight decay on the items": lambda m: with_items(m, weight_decay=1e-4),
    "rates that fall": lambda m: with_items(m, decay=0.5),
    "weights by examples": lambda m: replace(local(m), server=Mean(weights="examples")),
    "clip in L2": lambda m: replace(local(m), channel=(Dense(), Clip(0.5))),
    "clip in L1": lambda m: replace(local(m), channel=(Dense(), Clip(0.5, 1))),
    "clip and weight decay": lambda m: replace(
        with_items(m, weight_decay=0.01), channel=(Dense(), Clip(0.5))
    ),
    "two clips": lambda m: replace(local(m), channel=(Clip(2.0, 1), Clip(0.5, 2))),
    "batches of one": lambda m: local(m, batch=1, epochs=1, items=Sgd(0.1)),
    "one batch for all": lambda m: local(m, batch=10_000),
    "one negative": lambda m: replace(local(m), sampling=Sampling(1)),
    "more negatives than items": lambda m: replace(local(m), sampling=Sampling(60)),
}


def assert_engines_agree(method: Method, train: TrainView, who: Participation) -> Trace:
    reference = trace(method, train, LoopEngine(WIDE), rounds=2, participation=who)
    found: dict[str, Engine] = {"cohort": CohortEngine(WIDE, block=7, fused="never")}
    if why_not_fused(algorithm_for(method, train), "cpu") is None:
        found["fused"] = CohortEngine(WIDE, fused="always")
    for name, engine in found.items():
        other = trace(method, train, engine, rounds=2, participation=who)
        for parameter, value in reference.end.items():
            allowed = 1e-10 * reference.change(parameter)
            assert reference.change(parameter) > 0, f"{parameter} never moved: nothing is compared"
            assert same_to(value, other.end[parameter], allowed), f"{name} differs in {parameter}"
        for key, moment in reference.state.optimizer.items():
            scale = 1e-10 * float(moment.abs().max())
            assert same_to(moment, other.state.optimizer[key], scale), f"{name} differs in {key}"
        assert other.state.loss == pytest.approx(reference.state.loss, rel=1e-10)
    return reference


WHO = Participation(ratio=0.7, availability=0.8, dropout=0.2)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("base", BASES)
def test_engines_agree_under(base: str, option: str) -> None:
    train = split_dataset(ragged(n_users=9, n_items=16), CLEAN).train
    assert_engines_agree(OPTIONS[option](BASES[base]), train, WHO)


@pytest.mark.parametrize("base", BASES)
def test_engines_agree_where_probabilities_saturate(base: str) -> None:
    train = split_dataset(ragged(n_users=9, n_items=16), CLEAN).train
    method = replace(BASES[base], objective=BinaryCrossEntropy("probabilities"))
    method = local(method, model=Sgd(0.1), items=Sgd(10.0, per_item=80.0))
    found = assert_engines_agree(method, train, WHO)
    plain = replace(method, objective=BinaryCrossEntropy())
    exact = trace(plain, train, LoopEngine(WIDE), rounds=2, participation=WHO)
    if base != "local_only":  # alone, nobody is ever far off the mark: no wrong answer saturates
        # saturation really happened: with the exact loss the same steps end elsewhere, or nowhere
        assert not same_to(found.end["items"], exact.end["items"], 1.0)


@pytest.mark.parametrize("base", BASES)
def test_engines_agree_on_the_leaky_pool_with_kept_duplicates(base: str) -> None:
    rows = ragged(n_users=9, n_items=16)
    train = split_dataset(rows, PFEDREC).train
    assert train.leaks
    doubled = Lists.from_pairs(
        np.repeat(np.arange(train.n_users), 2 * train.positives.size_U),
        np.repeat(train.positives.item_N, 2),
        train.n_users,
    )
    assert doubled[1].tolist() == np.repeat(train.positives[1], 2).tolist()
    train = replace(train, positives=doubled, time_N=None)
    for redraw in ("round", "epoch"):
        method = replace(local(BASES[base]), sampling=Sampling(4, redraw))  # type: ignore[arg-type]
        assert_engines_agree(method, train, WHO)


@pytest.mark.parametrize("base", BASES)
def test_engines_agree_for_users_who_have_nearly_everything(base: str) -> None:
    """One negative is left for the first user, none for the second, and one positive is all the
    third has."""
    train = view(list(range(29)), list(range(30)), [4], [1, 2, 3], n_items=30)
    assert samples_per_user(train, Sampling(4)).tolist() == [58, 30, 5, 15]
    assert_engines_agree(local(BASES[base]), train, Participation(dropout=0.2))


def test_a_clip_on_an_isolated_client_is_harmless_in_every_engine() -> None:
    """Nothing is sent, so there is nothing to clip: the personal tables are those without it."""
    train = split_dataset(ragged(n_users=9, n_items=16), CLEAN).train
    clipped = replace(local_only(dim=5), channel=(Dense(), Clip(0.1)))
    assert_engines_agree(local(clipped), train, WHO)
    one = trace(local(clipped), train, CohortEngine(fused="always"))
    two = trace(local(local_only(dim=5)), train, CohortEngine(fused="always"))
    assert torch.equal(one.end["items.own"], two.end["items.own"])


def test_describe_says_which_path_runs_and_why() -> None:
    train = few()
    engine = CohortEngine()
    said = engine.describe(algorithm_for(fedmf(dim=3), train)).text
    assert said == "fused: linear kernel, one compiled pass per client, 1 thread(s)"
    tower = engine.describe(algorithm_for(fedncf(dim=3), train)).text
    assert tower == said.replace("linear", "perceptron")
    slow = local(fedncf(dim=3), model=Adam())
    deep = engine.describe(algorithm_for(slow, train)).text
    assert deep == (
        "cohort: blocks of 32 clients on cpu (local.model is not plain gradient descent)"
    )
    plain = CohortEngine(fused="never").describe(algorithm_for(fedmf(dim=3), train)).text
    assert plain == "cohort: blocks of 64 clients on cpu (the fused kernel was not asked for)"
    with pytest.raises(TacitError) as caught:
        CohortEngine(fused="always").start(algorithm_for(slow, train), train, 0)
    assert str(caught.value) == (
        "The fused engine cannot run this method: local.model is not plain gradient descent; use "
        "engine='cohort'."
    )


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (local(fedmf(), model=Adam()), "local.model is not plain gradient descent"),
        (with_items(fedmf(), weight_decay=0.1), "local.items is not plain gradient descent"),
        (replace(fedmf(), channel=(Clip(), Clip())), "the channel has more than one clip"),
        (
            replace(fedmf(), backbone=LinearHead(user_vector=True)),
            "LinearHead is neither linear in the item row nor a perceptron",
        ),
    ],
)
def test_why_not_fused(method: Method, reason: str) -> None:
    assert why_not_fused(algorithm_for(method, few()), "cpu") == reason
    assert (
        why_not_fused(algorithm_for(fedmf(), few()), "cuda") == "the fused kernel runs on the CPU"
    )


def test_a_block_goes_when_nobody_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # a block in a cycle would hold everybody's tables until the collector comes by
    import gc
    import weakref

    from tacit.engines import cohort

    gone: list[weakref.ref[Any]] = []

    class Watched(cohort.BlockRun):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            gone.append(weakref.ref(self))

    monkeypatch.setattr(cohort, "BlockRun", Watched)
    gc.disable()
    try:
        trace(fedmf(dim=4), few(), CohortEngine(fused="never"), rounds=2)
        assert gone
        assert all(block() is None for block in gone)
    finally:
        gc.enable()


@pytest.mark.parametrize("most", [3, 0])
def test_blocks_that_a_gpu_has_no_room_for_are_halved(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    from tacit.engines import cohort

    class Narrow(cohort.BlockRun):
        def train(self) -> float:
            if len(self.user_B) > most:
                raise torch.OutOfMemoryError("out of memory")
            return super().train()

    method, engine = fedmf(dim=4), CohortEngine(WIDE, fused="never", block=8)
    many = split_dataset(ragged(n_users=9, n_items=16), CLEAN).train
    whole = trace(method, many, engine, rounds=2)
    monkeypatch.setattr(cohort, "BlockRun", Narrow)
    if most == 0:
        with pytest.raises(TacitError, match="One client alone does not fit the memory of cpu"):
            trace(method, many, engine, rounds=2)
    else:
        parted = trace(method, many, engine, rounds=2)
        for name, value in whole.end.items():
            assert same_to(value, parted.end[name], 1e-10 * whole.change(name)), name
        assert parted.state.loss == pytest.approx(whole.state.loss, rel=1e-10)


def test_gates_that_a_gpu_has_no_room_for_are_fitted_in_smaller_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tacit.engines import guidance

    fit, sizes = guidance._fit_block, []

    def narrow(algorithm: Any, guided: Any, state: Any, user_B: np.ndarray, *rest: Any) -> None:
        sizes.append(len(user_B))
        if len(user_B) > 3:
            raise torch.OutOfMemoryError("out of memory")
        fit(algorithm, guided, state, user_B, *rest)

    method = fedrkg(fedmf(dim=4), beta=0.5, every=1, gate_rate=0.1)
    engine = CohortEngine(WIDE, fused="never", block=8)
    many = split_dataset(ragged(n_users=9, n_items=16), CLEAN).train
    whole = trace(method, many, engine, rounds=2)
    monkeypatch.setattr(guidance, "_fit_block", narrow)
    parted = trace(method, many, engine, rounds=2)
    assert {size > 3 for size in sizes} == {True, False}
    assert whole.change("gate.w") > 0
    for name, value in whole.end.items():
        assert same_to(value, parted.end[name], 1e-10 * whole.change(name)), name
