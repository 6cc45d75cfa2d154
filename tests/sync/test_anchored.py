"""IFedRec's rule: the pull by hand, its contraction, and the closed form against the loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData, ClientState, Update
from tacit.core.client import local_update
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.core.types import ITEMS
from tacit.data.batches import draw_block
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling, samples_per_user
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import newcomer_scores
from tacit.engines.participation import Participation, everybody
from tacit.engines.round import Engine
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.methods import fedncf, pfedrec
from tacit.parts.backbones import DotProduct, MlpHead, SharedMlp
from tacit.parts.channel import Clip, Dense
from tacit.parts.local import GradientsOnly, Joint, Reconstruct
from tacit.parts.mixture import Mixture
from tacit.parts.server import Mean, ServerSteps
from tacit.parts.sync import GUIDE, Anchored, Replace
from tacit.testing import SyncTests
from tacit.testing.play import Trace, algorithm_for, same_to, state_parameters
from tacit.testing.synthetic import ragged, with_content
from tacit.testing.threads import assert_threads_change_nothing

WIDE = torch.float64
TRAIN = split_dataset(ragged(n_users=16, n_items=30), CLEAN).train
ENGINES: dict[str, Engine] = {
    "loop": LoopEngine(WIDE),
    "blocks": CohortEngine(WIDE, block=7, fused="never"),
    "fused": CohortEngine(WIDE, fused="always"),
}


def anchored(method: Method, strength: float = 2.0) -> Method:
    """Several batches a round for most users, and two epochs."""
    local = replace(method.local, batch=16, epochs=2)  # type: ignore[type-var]
    return replace(method, sync=Anchored(strength), local=local)


PFEDREC = anchored(pfedrec(dim=6, per_item=2.0))
FEDNCF = anchored(fedncf(dim=6, layers=(5, 1), per_item=1.0))
FITTED = Reconstruct(Sgd(0.1), Sgd(0.1, per_item=2.0), batch=16, item_epochs=2)
METHODS = {
    "pfedrec": PFEDREC,
    "pfedrec, by examples": replace(PFEDREC, server=Mean("examples")),
    "pfedrec, new negatives": replace(PFEDREC, sampling=Sampling(redraw="epoch")),
    "pfedrec, all at once": replace(PFEDREC, local=Joint(Sgd(0.1), Sgd(0.1, 2.0), 2, 16)),
    "pfedrec, fitted first": replace(PFEDREC, local=FITTED),
    "pfedrec, perceptron": replace(PFEDREC, backbone=MlpHead(6, (3, 1))),
    "fedncf": FEDNCF,
    "fedncf, private scorer": replace(FEDNCF, backbone=SharedMlp(6, (5, 1), scorer="private")),
}


def guided(method: Method, engine: Engine, train: TrainView = TRAIN, rounds: int = 3) -> Trace:
    """A few rounds with sampled participation and drop-out, and a new guide before each."""
    algorithm = algorithm_for(method, train)
    state = engine.start(algorithm, train, seed=0)
    start = state_parameters(state)
    for number in range(1, rounds + 1):
        if GUIDE in state.shared:
            generator = torch.Generator().manual_seed(number)
            guide = torch.randn(state.shared[ITEMS].shape, generator=generator, dtype=WIDE)
            state.shared[GUIDE] = guide.to(state.shared[ITEMS]) / 10
        who = Participation(ratio=0.7, dropout=0.2).draw(train, 0, number)
        engine.round(algorithm, train, state, who, seed=0)
    return Trace(start, state_parameters(state), state)


def assert_same(one: Trace, two: Trace, share: float = 1e-10, ulps: int = 0) -> None:
    for name, value in one.end.items():
        assert one.change(name) > 0, f"{name} never moved: nothing is compared"
        assert same_to(value, two.end[name], share * one.change(name), ulps), name
    assert two.state.loss == pytest.approx(one.state.loss, rel=share)


class TestAnchored(SyncTests):
    sync = Anchored(strength=0.5)


def test_the_term_by_hand() -> None:
    tables = {ITEMS: torch.tensor([[1.0, 2.0], [3.0, 4.0]]), GUIDE: torch.ones(2, 2)}
    assert Anchored(strength=2.0).table_penalty(tables).item() == pytest.approx(2 * 14 / 4)


def lonely(hidden: int) -> TrainView:
    """One client that likes item 0 and never meets the last `hidden` of 2 + `hidden` items."""
    kept_back = Lists(np.array([0, hidden]), np.arange(2, 2 + hidden))
    likes = Lists(np.array([0, 1]), np.array([0]))
    return TrainView(2 + hidden, likes, np.array([9], np.uint64), kept_back)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_one_client_by_hand(engine: Engine) -> None:
    """A batch of item 0 (liked) and item 1 (not); item 2 is never drawn."""
    local = Joint(Sgd(0.1), items=Sgd(0.2))
    method = Method(DotProduct(1), sync=Anchored(3.0), local=local, sampling=Sampling(1))
    algorithm = algorithm_for(method, lonely(1))
    state = engine.start(algorithm, lonely(1), seed=0)
    assert not state.shared[GUIDE].any()
    state.shared[ITEMS][:] = torch.tensor([[1.0], [2.0], [5.0]])
    state.shared[GUIDE][:] = torch.tensor([[0.0], [4.0], [7.0]])
    state.private["user"][:] = 0.5
    engine.round(algorithm, lonely(1), state, everybody(lonely(1)), seed=0)
    liked, other = 1 / (1 + np.exp(-0.5)) - 1, 1 / (1 + np.exp(-1.0))
    pull = 2 * 3.0 / 3  # of strength 3 over three entries
    expected = [
        1.0 - 0.2 * (liked * 0.5 / 2 + pull * (1.0 - 0.0)),
        2.0 - 0.2 * (other * 0.5 / 2 + pull * (2.0 - 4.0)),
        5.0 - 0.2 * (pull * (5.0 - 7.0)),
    ]
    assert state.shared[ITEMS][:, 0].tolist() == pytest.approx(expected, abs=1e-12)
    moved = 0.5 - 0.1 * (liked * 1.0 / 2 + other * 2.0 / 2)
    assert state.private["user"].item() == pytest.approx(moved, abs=1e-12)
    assert state.shared[GUIDE][:, 0].tolist() == [0.0, 4.0, 7.0]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(("dim", "factor"), [(200, 0.2), (64, -1.5)])
def test_a_step_contracts_as_the_paper_s_numbers_say(
    engine: Engine, dim: int, factor: float
) -> None:
    """1 − 2 · 10 · 0.1 · 80 / d per item step, on all rows of a client whose data term is zero; at
    width 64 that is a divergence, which is to be seen."""
    method = replace(pfedrec(dim), sync=Anchored(10.0))
    still = replace(method.local, model=Sgd(0.0), batch=2, epochs=3)  # type: ignore[type-var]
    algorithm = algorithm_for(replace(method, local=still), lonely(4))
    state = engine.start(algorithm, lonely(4), seed=0)
    state.private["head.w"][:] = 0.0
    state.shared[GUIDE] += 0.3
    before = state.shared[ITEMS] - 0.3
    engine.round(algorithm, lonely(4), state, everybody(lonely(4)), seed=0)
    steps = 3 * int(np.ceil(samples_per_user(lonely(4), method.sampling)[0] / 2))
    assert steps >= 3
    after = state.shared[ITEMS] - 0.3
    assert torch.allclose(after, factor**steps * before, rtol=1e-9, atol=0)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("name", ["pfedrec", "fedncf"])
def test_without_a_pull_it_is_replace(engine: Engine, name: str) -> None:
    plain = replace(METHODS[name], sync=Replace())
    one, two = guided(plain, engine), guided(replace(plain, sync=Anchored(0.0)), engine)
    for parameter, value in one.end.items():
        assert same_to(value, two.end[parameter], 1e-12), parameter
    assert not same_to(one.end[ITEMS], guided(METHODS[name], engine).end[ITEMS], 1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_engines_agree_in_float64(name: str) -> None:
    reference = guided(METHODS[name], ENGINES["loop"])
    for other in ("blocks", "fused"):
        assert_same(reference, guided(METHODS[name], ENGINES[other]))


@pytest.mark.parametrize("name", ["pfedrec", pytest.param("fedncf", marks=pytest.mark.slow)])
def test_engines_agree_in_float32(name: str) -> None:
    reference = guided(METHODS[name], LoopEngine())
    for fused in ("never", "always"):
        found = guided(METHODS[name], CohortEngine(fused=fused))
        assert_same(reference, found, share=1e-4, ulps=4)


@pytest.mark.parametrize("name", ["pfedrec", "fedncf"])
def test_threads_change_not_a_bit(name: str) -> None:
    many = split_dataset(ragged(n_users=200), CLEAN).train  # several chunks
    assert_threads_change_nothing(lambda engine: guided(METHODS[name], engine, many))


NOT_IN_CLOSED_FORM = {
    "a bound on the gradient": replace(
        PFEDREC,
        local=replace(PFEDREC.local, gradient_clip=0.05),  # type: ignore[type-var]
    ),
    "a clip of the upload": replace(PFEDREC, channel=(Dense(), Clip(0.5))),
    "not plain gradient descent": replace(
        PFEDREC,
        local=replace(PFEDREC.local, items=Adam(0.01)),  # type: ignore[type-var]
    ),
}


@pytest.mark.parametrize("reason", NOT_IN_CLOSED_FORM)
def test_elsewhere_all_rows_are_walked_through(reason: str) -> None:
    method, engine = NOT_IN_CLOSED_FORM[reason], CohortEngine(WIDE, block=7)
    said = engine.describe(algorithm_for(method, TRAIN)).text
    assert said.startswith("cohort")
    assert reason in said
    reference = guided(method, LoopEngine(WIDE))
    assert not same_to(reference.end[ITEMS], guided(PFEDREC, engine).end[ITEMS], 1e-3)
    assert_same(reference, guided(method, engine))


def test_the_fused_path_says_so() -> None:
    assert CohortEngine().describe(algorithm_for(PFEDREC, TRAIN)).text.startswith("fused")


def alone(method: Method, state: State, user: int) -> Update:
    """One client's round, from the state."""
    draws = draw_block(
        TRAIN,
        np.array([user]),
        samples_per_user(TRAIN, method.sampling),
        method.sampling,
        batch=method.local.batch,
        epochs=method.local.epochs,
        seed=0,
        round_number=1,
        dtype=np.float64,
        all_rows=True,
    )
    private = {name: value[user] for name, value in state.private.items()}
    return local_update(
        algorithm_for(method, TRAIN),
        state.shared,
        ClientState(private),
        ClientData.of_draws(draws),
        1,
    )


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_server_takes_the_plain_mean_of_whole_tables(engine: Engine) -> None:
    """A row that one of n clients reads moves by 1/n of what that client makes of it, and by the
    others' shares of the pull."""
    algorithm = algorithm_for(PFEDREC, TRAIN)
    state = engine.start(algorithm, TRAIN, seed=0)
    state.shared[GUIDE] += 0.1
    before = state.copy()
    engine.round(algorithm, TRAIN, state, everybody(TRAIN), seed=0)
    change = [alone(PFEDREC, before, u).upload.change[ITEMS] for u in range(TRAIN.n_users)]
    expected = before.shared[ITEMS] + torch.stack(change).mean(0)
    assert same_to(expected, state.shared[ITEMS], 1e-12)


def test_the_guide_never_leaves_a_device_and_only_the_server_writes_it() -> None:
    for method in (PFEDREC, FEDNCF):
        algorithm = algorithm_for(method, TRAIN)
        assert GUIDE not in algorithm.uploads
        state = LoopEngine(WIDE).start(algorithm, TRAIN, seed=0)
        assert set(alone(method, state, 0).upload.change) == set(algorithm.shared) - {GUIDE}
        for engine in ENGINES.values():
            end = guided(method, engine, rounds=1).end[GUIDE]
            generator = torch.Generator().manual_seed(1)
            assert torch.equal(end, torch.randn(end.shape, generator=generator, dtype=WIDE) / 10)


def test_traffic() -> None:
    """Table and guide come down, the table goes up; a shared perceptron goes both ways."""
    table, tower = TRAIN.n_items * 6, 12 * 5 + 5 + 5 + 1
    for method, both_ways in ((PFEDREC, 0), (FEDNCF, tower)):
        algorithm = algorithm_for(method, TRAIN)
        assert algorithm.floats_up == table + both_ways
        assert algorithm.floats_down == 2 * table + both_ways
        traffic = algorithm.traffic(pytest.fail, [5], width=1)
        assert traffic.total == 5 * (3 * table + 2 * both_ways)


def test_a_newcomer_holds_the_table_still_and_feels_no_pull() -> None:
    algorithm = algorithm_for(PFEDREC, TRAIN)
    shared = LoopEngine(WIDE).start(algorithm, TRAIN, seed=0).shared
    found = [
        newcomer_scores(
            algorithm, {**shared, GUIDE: guide}, History(np.array([1])), name=5, seed=0, rounds=2
        )
        for guide in (shared[GUIDE], shared[GUIDE] + 1)
    ]
    assert np.array_equal(found[0], found[1])


def test_divergence_is_not_hidden() -> None:
    """An absurd pull leaves the numbers that there are, in all engines, and no warning."""
    for engine in (LoopEngine(), CohortEngine(fused="never"), CohortEngine(fused="always")):
        end = guided(replace(PFEDREC, sync=Anchored(1e30)), engine).end[ITEMS]
        assert not torch.isfinite(end).any()


def test_views_are_made_on_devices_where_a_term_speaks_of_the_table() -> None:
    """The server could not give the term what it looks at: its table of views is another one."""
    train = split_dataset(with_content(ragged()), CLEAN).train
    local = GradientsOnly(Joint(Sgd(0.1), items=Sgd(0.1)))
    method = Method(DotProduct(6), Mixture(width=6), local=local, server=ServerSteps())
    assert algorithm_for(method, train).with_server_views is not None
    assert algorithm_for(replace(method, sync=Anchored()), train).with_server_views is None


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(TacitError, match=r"sync\.strength is -1"):
        Anchored(-1.0)
