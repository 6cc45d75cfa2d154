"""A real deployment in a storm: SuperNodes, the ServerApp and the SuperLink are killed at random
moments and started again. What nodes keep is, to the last bit, a simulation with the participants
that were written down.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.cli.main import main
from tacit.coordinator.checkpoint import Checkpoint
from tacit.coordinator.records import RecordFile
from tacit.deployment.processes import SUPERLINK, Processes, free_port, marked, start_run
from tacit.deployment.project import NodePlace, Project, open_project
from tacit.engines.clients import client_state
from tacit.errors import TacitError
from tacit.files import write_text
from tacit.flower.apps import open_node, read_copies
from tacit.node.runs import RunBox
from tacit.testing.replay import (
    When,
    kept_by,
    participants,
    replayed,
    require_same,
    train_of,
)
from tacit.wire.messages import Moment, Played, from_letter

pytest.importorskip("flwr")

NODES, VICTIMS, ROUNDS = 6, 2, 10  # each exchange starts a process on every node
SEED = 3
LIMIT = 1200.0  # seconds; on two cores of one's own it takes less than 300
RUN = Moment("shop", "run-1", 1)
WAITS = {"quorum": "0.3", "enough": "0.66", "deadline": "60.0", "wait": "5.0"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Made by `tacit deploy init`, with one person on each node; whoever owns it sets how long the
    server waits."""
    random = np.random.default_rng(SEED)
    rows = [
        f"person-{person},item-{item:02d},{1000 * person + place}"
        for person in range(NODES)
        for place, item in enumerate(random.permutation(40)[: 6 + person].tolist())
    ]
    data, folder = tmp_path / "people.csv", tmp_path / "shop"
    write_text(data, "\n".join(["user,item,time", *rows]) + "\n")
    given = ["--method", "pfedrec", "--nodes", str(NODES), "--rounds", str(ROUNDS)]
    given += ["--data", str(data), "--port", str(free_port())]
    given += ["--set", "backbone.dim=8", "--set", "protocol.select=last"]
    assert main(["deploy", "init", str(folder), *given]) == 0
    text = (folder / "deployment.toml").read_text()
    for name, value in WAITS.items():
        text, count = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
        assert count == 1
    write_text(folder / "deployment.toml", text)
    return open_project(folder)


@dataclass
class Deployed:
    """A deployment that is up, and what is known of it from outside."""

    project: Project
    processes: Processes
    copies: Path
    until: float
    mark: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)
    played: dict[str, set[When]] = field(default_factory=lambda: defaultdict(set))

    # What is seen

    @property
    def rounds_played(self) -> int:
        lines = RecordFile(self.project.runs / RUN.run / "rounds.jsonl").read()
        return sum(line.kind == "exchange" for line in lines)

    @property
    def is_done(self) -> bool:
        log = self.project.server / "coordinator.log"
        text = log.read_text(encoding="utf-8") if log.is_file() else ""
        assert " ERROR " not in text, text
        try:
            found = Checkpoint(self.project.runs / RUN.run / "checkpoint").read()
        except TacitError:  # the server is just writing it
            return False
        return found is not None and found[3].stage == "done"

    def wait_for(self, what: Callable[[], object], said: str) -> None:
        while not what():
            assert time.monotonic() < self.until, f"{said} took too long\n{self.tails()}"
            time.sleep(0.1)

    def tails(self) -> str:
        """The ends of all logs."""
        files = [*self.processes.logs.glob("*.log"), self.project.server / "coordinator.log"]
        found = {file.name: file.read_text(errors="replace")[-1500:] for file in files}
        return "\n".join(f"--- {name}\n{text}" for name, text in found.items())

    def note(self, place: NodePlace) -> None:
        """The moment that a node has played last, where it plays no more."""
        box = RunBox.read(open_node(place.data, place.key).store, RUN)
        if box is not None and box.played != (0, 0):
            self.played[place.name].add(box.played)

    # What is done to it

    def kill_node(self, place: NodePlace) -> None:
        """A device loses its power: all of its processes are killed at once."""
        home = f"FLWR_HOME={place.folder / '.flwr'}"
        assert self._killed(lambda number: home in _environment(number))
        self.note(place)

    def kill_server_app(self) -> None:
        assert self._killed(lambda number: "flwr-serverapp" in _command(number))

    def kill_superlink(self) -> None:
        started = self.processes.started()
        assert started is not None
        assert self._killed(lambda number: number == started.processes[SUPERLINK])

    def start_server_app(self) -> None:
        """`flwr run .`, which is given again while the SuperLink is not up yet."""

        def begun() -> bool:
            with contextlib.suppress(TacitError):
                return bool(start_run(self.project))
            return False

        self.wait_for(begun, "a run")

    def _killed(self, chosen: Callable[[int], bool]) -> int:
        """Kill until nothing is left of it; how many processes there were."""
        count = 0
        while numbers := [number for number in marked(self.mark) if chosen(number)]:
            assert time.monotonic() < self.until
            for number in numbers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
                    count += 1
            time.sleep(0.05)
        return count

    def look_after(self) -> None:
        """Whoever owns the deployment gives `tacit deploy up` where something has ended."""
        while not self.stopped.wait(1.0):
            if not all(self.processes.alive().values()):
                with contextlib.suppress(TacitError):  # the SuperLink may end again meanwhile
                    self.processes.up(self.copies)


def _environment(number: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/environ").read_bytes().decode().split("\0")
    return []


def _command(number: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes().decode()
    return ""


@contextlib.contextmanager
def deployed(project: Project, copies: Path) -> Iterator[Deployed]:
    """Up, and at the end down again whatever happened."""
    found = Deployed(project, Processes(project), copies, time.monotonic() + LIMIT)
    owner = threading.Thread(target=found.look_after)
    try:
        found.processes.up(copies)
        started = found.processes.started()
        assert started is not None
        found.mark = started.mark
        owner.start()
        yield found
    finally:
        found.stopped.set()
        if owner.ident is not None:
            owner.join()
        found.processes.down()
    assert not marked(found.mark)


def strikes(there: Deployed) -> list[tuple[int, float, Callable[[], None]]]:
    """After which round, how many seconds later, and what: drawn from a seed. The first victim is
    hit at any moment, the second while it plays."""
    random = np.random.default_rng(SEED)
    first, second = random.permutation(NODES)[:VICTIMS].tolist()
    places = there.project.nodes

    def hit_at_work() -> None:
        home = f"FLWR_HOME={places[second].folder / '.flwr'}"
        there.wait_for(
            lambda: any(
                "flwr-clientapp" in _command(number) and home in _environment(number)
                for number in marked(there.mark)
            ),
            "a ClientApp",
        )
        time.sleep(float(random.uniform(0.0, 4.0)))
        there.kill_node(places[second])

    def server_app() -> None:
        there.kill_server_app()
        there.start_server_app()

    def superlink() -> None:
        there.kill_superlink()
        there.start_server_app()

    acts = [partial(there.kill_node, places[first]), server_app, hit_at_work, superlink]
    rounds = sorted(random.integers(1, 8, len(acts)).tolist())
    return [
        (after, float(random.uniform(0.0, 8.0)), act)
        for after, act in zip(rounds, acts, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # processes outlive the call that starts them
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deployment_in_a_storm_is_a_simulation_with_the_recorded_participants(
    project: Project, tmp_path: Path
) -> None:
    copies = tmp_path / "copies"
    with deployed(project, copies) as there:
        start_run(project)
        for after, delay, act in strikes(there):
            there.wait_for(lambda after=after: there.rounds_played >= after, f"round {after}")
            time.sleep(delay)
            assert not there.is_done
            act()
        there.wait_for(lambda: there.is_done, "the rest")
        there.wait_for(lambda: all(there.processes.alive().values()), "who was killed")

    # A moment was played where its answer left the node, or where it is what the node played last
    # before it was killed or stopped.
    for place in project.nodes:
        there.note(place)
        for letter in read_copies(copies / place.name):
            message = from_letter(letter)
            if isinstance(message, Played):
                there.played[place.name].add((message.moment.round_number, message.moment.exchange))

    lines = RecordFile(project.runs / RUN.run / "rounds.jsonl").read()
    exchanges = [line for line in lines if line.kind == "exchange"]
    heard = {
        (line.round_number, line.exchange): () if line.given_up else line.answered
        for line in exchanges
    }
    assert list(heard) == [(number, 0) for number in range(1, ROUNDS + 1)]
    assert len(exchanges) == ROUNDS
    assert any(heard.values())
    for when, answered in heard.items():
        assert all(when in there.played[name] for name in answered), when

    experiment, names = project.experiment(), project.settings.nodes
    data = experiment.data.load(experiment.protocol.duplicates)
    who = participants(names, there.played, heard)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        state = replayed(experiment, data, who)
    finally:
        torch.set_num_threads(threads)

    found = Checkpoint(project.runs / RUN.run / "checkpoint").read()
    assert found is not None
    shared = found[1].shared
    assert shared.keys() == state.shared.keys()
    for key, value in state.shared.items():
        assert torch.equal(shared[key], value), key
    algorithm, train = train_of(experiment, data)
    for person, place in enumerate(project.nodes):
        node = open_node(place.data, place.key)
        kept = kept_by(node, RUN, shared)
        assert (kept is None) == (not there.played[place.name])
        if kept is not None:
            require_same(kept, client_state(algorithm, train, state, person), place.name)
        sent = [one for one in node.ledger.read() if one.kind == "upload"]
        times = [(one.round_number, one.exchange) for one in sent]
        assert len(times) == len(set(times))
        assert there.played[place.name] <= set(times)  # nothing leaves that was not written down
