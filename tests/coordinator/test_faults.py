"""Servers and nodes that die at random, answer late, twice or with garbage: nothing is lost, and
nothing is applied twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tacit.coordinator.checkpoint as checkpoint_module
from tacit.coordinator.memory import Faults, NodeDownError
from tacit.coordinator.rules import Rules
from tacit.engines.clients import client_state
from tacit.engines.participation import Participants
from tacit.experiment.resolve import resolve
from tacit.node.device import Node
from tacit.testing.nodes import KEY
from tacit.testing.replay import kept_by, participants, replayed, require_same
from tacit.testing.synthetic import ragged
from tacit.wire.messages import Letter, Moment, Play, Request

SMALL = ["backbone.dim=4"]


class ServerKilledError(BaseException):
    """Nothing catches it, as nothing catches a kill."""


class EverySoOften(Faults):
    """The server is killed at every n-th time that something crosses."""

    def __init__(self, every: int) -> None:
        self.every, self.count, self.kills = every, 0, 0

    def _cross(self) -> None:
        self.count += 1
        if self.count % self.every == 0:
            self.kills += 1
            raise ServerKilledError

    def before(self, name: str, request: Request) -> None:
        self._cross()

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        self._cross()
        return [(name, answer)]


class Storm(Faults):
    """Nodes are down, die with their answer, come back, send twice, late and garbage."""

    def __init__(self, seed: int, deaths_of_the_server: Iterable[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.deaths = set(deaths_of_the_server)
        self.nodes: dict[str, Node] = {}
        self.count, self.lost, self.late = 0, 0, list[tuple[str, Letter]]()
        self.played: set[tuple[str, int, int]] = set()  # node, round, exchange

    def before(self, name: str, request: Request) -> None:
        self.count += 1
        if self.count in self.deaths:
            raise ServerKilledError
        if self.random.random() < 0.3:  # a new process, from what lies on the disk
            self.nodes[name] = Node.open(self.nodes[name].store.folder, KEY)
        if self.random.random() < 0.15:
            raise NodeDownError

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        if isinstance(request, Play) and answer.kind == "Played":
            self.played.add((name, request.moment.round_number, request.moment.exchange))
        draw = self.random.random()
        if draw < 0.1:
            self.lost += isinstance(request, Play)
            raise NodeDownError
        arrived = [(name, answer)]
        if draw < 0.2:
            arrived.append((name, answer))
        if draw > 0.9:
            arrived.insert(0, (name, Letter("Nonsense", {"format": 1}, {})))
        if self.late and draw < 0.5:
            arrived.insert(0, self.late.pop())
        if 0.3 < draw < 0.4:
            self.late.append((name, answer))
            self.lost += isinstance(request, Play)
            return arrived[1:]
        return arrived


def played_to_the_end(small: Any, most: int = 200, **others: Any) -> Any:
    """Servers, one after another, until one of them reaches the end."""
    for _ in range(most):
        try:
            server = small.server(**others)
            server.run()
        except ServerKilledError:
            continue
        return server
    raise AssertionError("no server reached the end")


def test_a_server_killed_everywhere_comes_to_the_same_numbers(
    deployment: Callable[..., Any],
) -> None:
    experiment = resolve("pfedrec", sets=SMALL, rounds=3)
    data = ragged(n_users=5, n_items=16)
    killer = EverySoOften(10**9)
    small = deployment(experiment, data, faults=killer)
    killer.every = 11  # a step is 10 crossings, so that each kill hits another place of one
    server = played_to_the_end(small)
    assert killer.kills > 5
    everyone = [Participants(np.arange(5), np.ones(5, bool))] * 3
    state = small.simulated(everyone)
    for name, value in state.shared.items():
        assert torch.equal(server.server.shared[name], value)
    records = server.records.read()
    played = [one for one in records if one.kind == "exchange"]
    assert [one.round_number for one in played] == [1, 2, 3]
    assert all(len(one.answered) == 5 for one in played)
    assert server.server.round_number == 3


def test_a_server_killed_while_it_writes_comes_to_the_same_numbers(
    deployment: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = deployment(resolve("pfedrec", sets=SMALL, rounds=3), ragged(n_users=5, n_items=16))
    write, calls = checkpoint_module.write_sealed, []

    def dies_every_other_time(path: Path, content: dict[str, Any]) -> None:
        calls.append(path)
        if len(calls) % 2:  # tensors are written, what names them is not
            raise ServerKilledError
        write(path, content)

    monkeypatch.setattr(checkpoint_module, "write_sealed", dies_every_other_time)
    server = played_to_the_end(small)
    assert len(calls) > 14
    state = small.simulated([Participants(np.arange(5), np.ones(5, bool))] * 3)
    for name, value in state.shared.items():
        assert torch.equal(server.server.shared[name], value)
    kinds = [one.kind for one in server.records.read()]
    assert kinds.count("exchange") == kinds.count("validation") == 3


@pytest.mark.parametrize(
    ("method", "seed"),
    [
        ("pfedrec", 1),
        ("fedmf + fedrkg:every=2", 5),
        pytest.param("pfedrec", 2, marks=pytest.mark.slow),
        pytest.param("fedmf", 3, marks=pytest.mark.slow),
        pytest.param("fedncf", 4, marks=pytest.mark.slow),
        pytest.param("fedmf + fedrkg:every=1", 6, marks=pytest.mark.slow),
    ],
)
def test_what_nodes_keep_is_a_simulation_with_the_recorded_participants(
    method: str, seed: int, deployment: Callable[..., Any]
) -> None:
    name, *plugins = method.split(" + ")
    experiment = resolve(name, plugins=plugins, sets=SMALL, rounds=10)
    data = ragged(n_users=8, n_items=16)
    storm = Storm(seed, deaths_of_the_server=(45, 95))
    rules = Rules("shop", "first", quorum=0.3)
    small = deployment(experiment, data, faults=storm, rules=rules)
    storm.nodes = small.nodes
    server = played_to_the_end(small, validates=False)
    assert storm.lost > 0
    assert storm.count > max(storm.deaths)
    counted = {
        (one.round_number, one.exchange): () if one.given_up else one.answered
        for one in server.records.read()
        if one.kind == "exchange"
    }
    names = list(small.nodes)
    played = {one: {(n, e) for name, n, e in storm.played if name == one} for one in names}
    for when, heard in counted.items():
        assert set(heard) <= {one for one in names if when in played[one]}
    who = participants(names, played, counted)
    assert {number for number, _ in who} == set(range(1, 11))
    assert any(not one.reports_P.all() for one in who.values())
    state = replayed(experiment, data, who)
    for key, value in state.shared.items():
        assert torch.equal(server.server.shared[key], value), key
    for place, one in enumerate(names):
        node = Node.open(small.nodes[one].store.folder, KEY)
        kept = kept_by(node, Moment("shop", "first", 1), server.server.shared)
        assert kept is not None
        require_same(kept, client_state(small.algorithm, small.train, state, place), one)
        sent = [entry for entry in small.nodes[one].ledger.read() if entry.kind == "upload"]
        times = [(entry.round_number, entry.exchange) for entry in sent]
        assert len(times) == len(set(times))  # nothing is sent, or played, twice
        assert {(one, *when) for when in times} <= storm.played
