"""Where there is a GPU: a population lives on it, and does there what it does here."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.core.types import Task
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling
from tacit.data.split import split_dataset
from tacit.engines.central import CentralEngine, central_scorer
from tacit.engines.cohort import CohortEngine
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.device import move_to_device, room_on
from tacit.engines.participation import Participation
from tacit.engines.scoring import Scorer
from tacit.engines.select import engine_for, runs_on_gpu
from tacit.engines.state import State
from tacit.errors import NoRoomError, TacitError
from tacit.methods import METHODS as BY_NAME
from tacit.methods import (
    Aldi,
    Bm3,
    CsDiffRec,
    FedEase,
    FedMix,
    FedNext,
    Gar,
    Gru4Rec,
    Heater,
    Mf,
    Mgcn,
    Pgl,
    SasRec,
    Vbpr,
    cofedrec,
    fedavg,
    fedmf,
    fedncf,
    fedrap,
    fedrecon,
    gpfedrec,
    pfedrec,
)
from tacit.plugins.fedrkg import fedrkg, personal_table
from tacit.plugins.private import private
from tacit.testing.play import algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged, with_content

TRAIN = split_dataset(ragged(n_users=9, n_items=24), CLEAN).train
METHODS = {
    "gpfedrec": gpfedrec(dim=5, strength=2.0),
    "cofedrec": cofedrec(dim=5, strength=0.5, clusters=3, sample=None),
    "cofedrec on a sample": cofedrec(dim=5, strength=0.5, clusters=3, sample=9),
    "fedmf": fedmf(dim=5),
    "fedncf": fedncf(dim=5),
    "fedavg": fedavg(dim=5),
    "fedrecon": fedrecon(dim=5),
    "fedrap": fedrap(dim=5),
    "pfedrec": pfedrec(dim=5),
    "fedmf + fedrkg": fedrkg(fedmf(dim=5), beta=0.5, every=2, gate_rate=0.1),
    "fedncf + fedrkg": fedrkg(fedncf(dim=5), beta=0.5, every=1, gate_rate=0.1),
    "pfedrec + fedrkg, late and bounded": fedrkg(
        pfedrec(dim=5), beta=0.5, every=1, gate_rate=0.1, at="next", clip=0.1
    ),
    "fedmf + pie": personal_table(fedmf(dim=5)),
    "fedncf + private": private(fedncf(dim=5), clip=0.5),
    "fedmf + private, its bound estimated": private(fedmf(dim=5), view="local"),
    "fedmf + fedrkg + private": private(
        fedrkg(fedmf(dim=5), beta=0.5, every=1, gate_rate=0.1), clip=0.5, quantile=0.5
    ),
}


def slow(method: Method) -> Method:
    known = {field.name for field in fields(method.local)}  # type: ignore[arg-type]
    wanted = {"batch": 16, "epochs": 2, "items": Sgd(0.1, per_item=2.0)}
    changes = {name: value for name, value in wanted.items() if name in known}
    return replace(method, local=replace(method.local, **changes))  # type: ignore[type-var]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_gives_the_same_numbers(name: str) -> None:
    method = slow(METHODS[name])
    expected = trace(method, TRAIN, CohortEngine(torch.float64))
    found = trace(method, TRAIN, CohortEngine(torch.float64, device="cuda"))
    assert not found.state.on_host  # it stays there between rounds
    for parameter, value in expected.end.items():
        assert same_to(
            value, found.end[parameter].cpu(), 1e-9 * max(expected.change(parameter), 1.0)
        ), parameter
    assert max(expected.change(parameter) for parameter in expected.end) > 0.01
    users, algorithm = np.arange(TRAIN.n_users), algorithm_for(method, TRAIN)
    there = found.state if found.state.tuned is None else found.state.on("cpu")
    score_UI, other_UI = (Scorer(algorithm, state)(users) for state in (expected.state, there))
    assert np.abs(score_UI - other_UI).max() < 1e-9 * max(np.abs(score_UI).max(), 1.0)


FACTORS = Mf(6, 16, Sampling(negatives=2), Adam(0.01, lifetime="persistent"))
CENTRAL = {
    "sasrec": SasRec(dim=6, heads=2, length=8, batch=4),
    "sasrec with a softmax": SasRec(dim=6, length=8, batch=4, loss="softmax"),
    "gru4rec": Gru4Rec(dim=6, length=8, batch=4),
    "vbpr": Vbpr(dim=6, batch=8, biases=True),
    "bm3": Bm3(dim=6, batch=8),
    "mgcn": Mgcn(dim=6, batch=8, neighbours=3),
    "pgl": Pgl(dim=6, batch=8, neighbours=3, contrast_weight=0.1),
    "heater": Heater(factors=FACTORS, factor_epochs=1, batch=8),
    "gar": Gar(factors=FACTORS, factor_epochs=1, batch=8, hidden=6),
    "aldi": Aldi(factors=FACTORS, factor_epochs=1, batch=8, hidden=6),
    "aldi, weighted": Aldi(factors=FACTORS, factor_epochs=1, batch=8, hidden=6, weighted=True),
    "cs_diffrec": CsDiffRec(hidden=8, content_width=4, batch=5, optimiser=Adam(0.01)),
}
WITH_CONTENT = split_dataset(with_content(ragged(n_users=9, n_items=24)), CLEAN).train


def central_trace(name: str, device: str, rounds: int = 3) -> tuple[State, np.ndarray]:
    algorithm = CENTRAL[name].algorithm(Task.of(WITH_CONTENT))
    engine = CentralEngine(torch.float64, device)
    state, users = engine.start(algorithm, WITH_CONTENT, 0), np.arange(WITH_CONTENT.n_users)
    for number in range(1, rounds + 1):
        if number == 2:  # as after a run was taken up again
            state = state.on("cpu")
        engine.round(
            algorithm, WITH_CONTENT, state, Participation().draw(WITH_CONTENT, 0, number), 0
        )
    return state, central_scorer(algorithm, WITH_CONTENT, state, 0)(users)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", CENTRAL)
def test_a_gpu_trains_central_networks_to_the_same_numbers(name: str) -> None:
    expected, score_UI = central_trace(name, "cpu")
    found, other_UI = central_trace(name, "cuda")
    assert not found.on_host
    start = CENTRAL[name].start(WITH_CONTENT, 0, torch.float64)
    # PGL's items are their content, and a diffusion over rows has no tables
    table = next(name for name in ("items", "user", "network.out.w") if name in start)
    assert (expected.shared[table] - start[table]).abs().max() > 0.001
    for parameter, value in expected.shared.items():
        assert torch.allclose(value, found.shared[parameter].cpu(), rtol=1e-6, atol=1e-8), parameter
    assert np.allclose(score_UI, other_UI, rtol=1e-6, atol=1e-8)
    assert found.loss == pytest.approx(expected.loss, rel=1e-8)


@pytest.mark.parametrize("name", CENTRAL)
def test_a_central_network_begins_on_its_device_and_says_so(name: str) -> None:
    algorithm = CENTRAL[name].algorithm(Task.of(WITH_CONTENT))
    engine = CentralEngine(device="meta")
    state = engine.start(algorithm, WITH_CONTENT, 0)
    assert {parameter.device.type for parameter in state.shared.values()} == {"meta"}
    assert engine.describe(algorithm).text.endswith(", on meta")
    assert "on cpu" not in CentralEngine().describe(algorithm).text


@pytest.mark.parametrize(
    "name", ["popularity", "ease", "slist", "markov", "mf", "neumf", "fedpergnn", "fedspectral"]
)
def test_what_runs_on_the_cpu_only_refuses_a_gpu(name: str) -> None:
    """Closed forms too: they would not run where they were told to."""
    algorithm = BY_NAME[name].method().algorithm(Task.of(TRAIN))
    with pytest.raises(TacitError, match=f"{name} runs on the CPU only; use device='cpu'."):
        engine_for(algorithm, name, "auto", device="cuda")
    assert engine_for(algorithm, name, "auto") is not None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("name", ["sasrec", "gru4rec", "vbpr", "bm3", "mgcn", "pgl"])
def test_central_networks_ask_for_a_gpu_that_is_there(name: str) -> None:
    algorithm = BY_NAME[name].method().algorithm(Task.of(TRAIN))
    with pytest.raises(TacitError, match="There is no CUDA device here"):
        engine_for(algorithm, name, "auto", device="cuda")
    with pytest.raises(TacitError, match="Unknown device 'tpu'"):
        engine_for(algorithm, name, "auto", device="tpu")


def test_a_state_moves_without_a_copy_where_it_is() -> None:
    state = trace(slow(METHODS["gpfedrec"]), TRAIN, CohortEngine(torch.float64), rounds=1).state
    here = state.on("cpu")
    assert here.private["items.own"] is state.private["items.own"]
    assert (here.round_number, here.loss) == (state.round_number, state.loss)
    there = state.on("meta")
    assert {
        parameter.device.type for parameter in (*there.shared.values(), *there.private.values())
    } == {"meta"}
    assert not state.private["items.own"].is_meta


def test_a_population_that_is_too_large_stays_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.engines.device._room", lambda device: 100.0)
    state = trace(fedmf(dim=5), TRAIN, CohortEngine(), rounds=1).state
    move_to_device(state, "meta")
    assert not state.shared["items"].is_meta


SOLVED = {
    "fedease": FedEase(ridges=(5.0, 50.0), column_power=0.2),
    "fedmix": FedMix(),
    "fednext": FedNext(),
    "fednext, ridge and EASE": FedNext(learns="ridge", ease=(0.5,)),
    "fednext, narrow": FedNext(width=6),
    "fedease + private": private(FedEase(), epsilon=200.0, delta=1e-3),
    "fednext + private": private(FedNext(), epsilon=200.0, delta=1e-3),
}


def solved(name: str, device: str) -> tuple[State, np.ndarray]:
    algorithm = SOLVED[name].algorithm(Task.of(TRAIN, releases=2))
    engine = CustomEngine(torch.float64, device=device)
    state = engine.start(algorithm, TRAIN, 0)
    for number in (1, 2):
        engine.round(algorithm, TRAIN, state, Participation().draw(TRAIN, 0, number), 0)
    return state, CustomScorer(algorithm, TRAIN, state)(np.arange(TRAIN.n_users))


@pytest.mark.parametrize("name", SOLVED)
def test_a_server_solves_on_its_device_and_says_so(name: str) -> None:
    """The way there and back, on a device that every machine has under a second name."""
    algorithm = SOLVED[name].algorithm(Task.of(TRAIN, releases=2))
    assert runs_on_gpu(algorithm)
    expected, score_UI = solved(name, "cpu")
    found, other_UI = solved(name, "cpu:0")
    assert all(torch.equal(value, found.shared[key]) for key, value in expected.shared.items())
    assert np.array_equal(score_UI, other_UI)
    assert np.ptp(score_UI) > 0
    said = CustomEngine(device="cpu:0").describe(algorithm).text
    assert said.endswith("; the server's step on cpu:0")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", SOLVED)
def test_a_gpu_solves_to_the_same_numbers(name: str) -> None:
    _, score_UI = solved(name, "cpu")
    found, other_UI = solved(name, "cuda")
    assert found.on_host  # clients are played here
    assert np.allclose(score_UI, other_UI, rtol=1e-9, atol=1e-9 * np.abs(score_UI).max())


def test_a_server_of_ones_own_is_not_taken_to_solve_on_a_gpu() -> None:
    class Mine(FedEase):
        def step(self, shared, total, n_clients, round_number):
            return super().step(shared, total, n_clients, round_number)

    class InPlace(FedEase):
        steps_on_gpu, step = FedEase.steps_on_gpu, FedEase.step

        def step_in_place(self, shared, total, n_clients, round_number):
            raise AssertionError("played on the CPU")

    assert runs_on_gpu(FedEase().algorithm(Task.of(TRAIN)))
    assert not runs_on_gpu(Mine().algorithm(Task.of(TRAIN)))
    assert not runs_on_gpu(InPlace().algorithm(Task.of(TRAIN)))
    with_content = BY_NAME["fedease"].method("content").algorithm(Task.of(TRAIN))
    assert not runs_on_gpu(with_content)


def test_the_loop_over_clients_refuses_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("fedmf", "fedease"):
        algorithm = BY_NAME[name].method().algorithm(Task.of(TRAIN))
        with pytest.raises(TacitError, match="The loop over clients runs on the CPU only"):
            engine_for(algorithm, name, "loop", device="cuda")
        assert engine_for(algorithm, name, "auto", device="cuda") is not None
    sasrec = BY_NAME["sasrec"].method().algorithm(Task.of(TRAIN))  # it has no clients
    assert engine_for(sasrec, "sasrec", "loop", device="cuda") == CentralEngine(device="cuda")


def test_a_solver_without_room_ends_in_a_sentence() -> None:
    with pytest.raises(NoRoomError, match="The memory of cuda ran out"), room_on("cuda"):
        raise RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED")
    with pytest.raises(RuntimeError, match="another fault"), room_on("cuda"):
        raise RuntimeError("another fault")
