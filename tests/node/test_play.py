"""Nodes play what the simulation plays: the same shared and private parameters."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.data.dataset import Dataset, Modalities
from tacit.engines.clients import client_state
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS
from tacit.node.device import Node
from tacit.node.runs import RunBox
from tacit.testing.nodes import KEY, catalogue_of, nodes_of, plan_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import Received, Refused, SumRequest

DATA: Dataset = with_content(ragged(n_users=7, n_items=24))

EXPERIMENTS: dict[str, Experiment] = {
    "pfedrec": resolve("pfedrec", sets=["backbone.dim=4"], rounds=3),
    "fedmf": resolve("fedmf", sets=["backbone.dim=4"], rounds=3),
    "fedmf + fedrkg": resolve(
        "fedmf", plugins=["fedrkg:every=1"], sets=["backbone.dim=4"], rounds=3
    ),
    "fcf + fedmr": resolve(
        "fcf", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=3
    ),
    "fcf + fedmr, views": resolve(
        "fcf",
        plugins=["fedmr"],
        sets=["backbone.dim=6", "items.width=6", "items.placement=server"],
        rounds=3,
    ),
    "fedease": resolve("fedease", rounds=3),
    "fedspectral": resolve("fedspectral", sets=["width=3"], rounds=3),
    "fednext": resolve("fednext", rounds=3),
}
IN_BOTH = ("pfedrec", "fcf + fedmr, views", "fedspectral")  # of each kind one; the rest: test-slow

BOTH = [
    pytest.param(
        name,
        precision,
        marks=[pytest.mark.slow] if precision == "float32" and name not in IN_BOTH else [],
    )
    for name in EXPERIMENTS
    for precision in ("float64", "float32")
]


def private_of(server: Any, node: Any) -> dict[str, torch.Tensor]:
    """What the people of a node keep, as declared."""
    box = RunBox.read(node.store, server.request().moment)
    assert box is not None
    run, _ = node._answers._own(server.plan)
    state = run.state(box.state, dict(server.state.shared), box.played[0], fresh=True)
    return {
        f"{person}/{name}": value
        for place, person in enumerate(node.people)
        for name, value in client_state(run.algorithm, run.train, state, place).parameters.items()
    }


def simulated_private(server: Any, state: Any) -> dict[str, torch.Tensor]:
    users = server.dataset.interactions.users
    return {
        f"{person}/{name}": value
        for place, person in enumerate(users)
        for name, value in client_state(
            server.algorithm, server.train, state, place
        ).parameters.items()
    }


@pytest.mark.parametrize(("name", "precision"), BOTH)
def test_one_node_for_each_person_is_the_reference_engine(
    name: str, precision: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    experiment = replace(EXPERIMENTS[name], precision=precision)  # type: ignore[arg-type]
    server = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path))
    for _ in range(3):
        server.play_round()
    expected = server.simulated(3)
    found = {k: v for node in server.nodes for k, v in private_of(server, node).items()}
    wanted = simulated_private(server, expected)
    assert found.keys() == wanted.keys()
    for key, value in {**expected.shared, **wanted}.items():
        other = server.state.shared[key] if key in expected.shared else found[key]
        if precision == "float32":
            assert torch.equal(other, value), key
        else:
            assert torch.allclose(other, value, rtol=0, atol=1e-12), key


# A node's sum is rounded to float32 on the wire, and the server of FedMR divides gradients of its
# encoder by the root of their squares, however small they are: last bits grow, to 1.8e-6 here.
ROUNDING = {"float64": 1e-11, "float32": 1e-6}
GROWN = {("fcf + fedmr", "float32"): 3e-6, ("fcf + fedmr, views", "float32"): 3e-6}


@pytest.mark.parametrize(("name", "precision"), BOTH)
def test_many_people_on_a_node_are_the_same_to_rounding(
    name: str, precision: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    groups = [[0, 1, 2], [3], [4, 5, 6]]
    experiment = replace(EXPERIMENTS[name], precision=precision)  # type: ignore[arg-type]
    server = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path, groups))
    for _ in range(3):
        server.play_round()
    expected = server.simulated(3)
    found = {k: v for node in server.nodes for k, v in private_of(server, node).items()}
    wanted = simulated_private(server, expected)
    allowed = GROWN.get((name, precision), ROUNDING[precision])
    for key, value in {**expected.shared, **wanted}.items():
        other = server.state.shared[key] if key in expected.shared else found[key]
        if key == "basis":  # singular directions, which have no sign
            other, value = (x * x.gather(0, x.abs().argmax(0)[None]).sign() for x in (other, value))
        scale = max(1.0, float(value.abs().max()))
        assert np.abs((other - value).numpy()).max(initial=0.0) <= allowed * scale, key


@pytest.mark.parametrize("name", ["fcf + fedmr, views", "pfedrec + ridge"])
def test_devices_without_content_leave_it_to_the_server(
    name: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """Where the server makes views of items, or rows of new ones, nodes need no content."""
    sets = ["backbone.dim=4"]
    ridge = resolve("pfedrec", plugins=["ridge:modalities=text"], sets=sets, split="time", rounds=3)
    experiment = {**EXPERIMENTS, "pfedrec + ridge": ridge}[name]
    bare = replace(DATA, modalities=Modalities())
    server = tiny_server(experiment, DATA, nodes_of(bare, tmp_path))
    server.plan = plan_of(experiment, bare)
    server.play_round()
    expected = server.simulated(1)
    for key, value in expected.shared.items():
        assert torch.equal(server.state.shared[key], value), key
    assert isinstance(server.deliver(server.nodes[0]), Received)


def test_the_reference_engine_also_plays_many_people(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    experiment = replace(EXPERIMENTS["pfedrec"], engine="loop", precision="float64")
    server = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path, [range(7)]))
    server.play_round()
    expected = server.simulated(1).shared["items"]
    assert torch.allclose(server.state.shared["items"], expected, rtol=0, atol=1e-12)


def test_an_application_records_while_rounds_are_played(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    server = tiny_server(EXPERIMENTS["pfedrec"], DATA, nodes_of(DATA, tmp_path, [range(7)]))
    items, before = DATA.interactions.items, len(server.nodes[0].history())

    def application() -> None:
        node = Node.open(server.nodes[0].store.folder, KEY)
        for number in range(20):
            node.record(items[number % len(items)], time=10**6 + number, user=node.people[3])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(application)
        for _ in range(3):
            server.play_round()
        writing.result(timeout=60)
    assert len(server.nodes[0].history()) == before + 20


def test_nothing_makes_a_node_raise(tmp_path: Path, tiny_server: Callable[..., Any]) -> None:
    server = tiny_server(EXPERIMENTS["pfedrec"], DATA, nodes_of(DATA, tmp_path))
    node, good = server.nodes[0], server.request()
    strange: list[Any] = [
        None,
        "play",
        replace(good, moment=replace(good.moment, round_number=-1)),
        replace(good, moment=replace(good.moment, round_number=0)),
        replace(good, moment=replace(good.moment, exchange=-1)),
        replace(good, plan=None),
        replace(good, arrays={"items": None}),
        Received("shop", 1),
        SumRequest(good.moment, good.plan, "keys", "update", b"\x00\x01"),
    ]
    for request in strange:
        answer = node.answer(request)
        assert isinstance(answer, Refused), request
    assert node.ledger.read() == []


def test_somebody_without_a_history_gets_a_list(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    for name, experiment in EXPERIMENTS.items():
        server = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path / name))
        server.play_round()
        where = tmp_path / name / "new"
        new = Node.init(where, KEY, catalogue_of(DATA), users=["new"])
        assert isinstance(server.deliver(new), Received), name
        assert len(new.recommend(5)) == 5


NOT_ON_NODES = {"gpfedrec", "cofedrec", "metamf"}  # beside the central methods
MORE = {
    "fedmf + top_k": ("fedmf", ["top_k"]),
    "pfedrec + quantise": ("pfedrec", ["quantise"]),
    "pfedrec + project": ("pfedrec", ["project"]),
    "fedmf + recency": ("fedmf", ["recency"]),
    "fedease + recency": ("fedease", ["recency"]),
    "fedncf + fedrkg": ("fedncf", ["fedrkg:every=2"]),
    "fedneumf + fedmr": ("fedneumf", ["fedmr"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*METHODS, *MORE])
def test_every_method_is_played_as_in_the_simulation_or_refused(
    name: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    method, plugins = MORE.get(name, (name, []))
    experiment = resolve(method, plugins=plugins, split="time", rounds=3)
    experiment = replace(experiment, precision="float64")
    server = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path))
    if server.algorithm.central is not None or name in NOT_ON_NODES:
        reason = "unknown run" if server.algorithm.reads_tables is None else "not agreed"
        assert server.nodes[0].answer(server.request()).reason == reason
        return
    rounds = min(2, server.algorithm.max_rounds or 2)
    for _ in range(rounds):
        server.play_round()
    expected = server.simulated(rounds)
    found = {k: v for node in server.nodes for k, v in private_of(server, node).items()}
    for key, value in {**expected.shared, **simulated_private(server, expected)}.items():
        other = server.state.shared[key] if key in expected.shared else found[key]
        assert torch.allclose(other, value, rtol=0, atol=1e-12), key
