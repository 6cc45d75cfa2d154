"""A ServerApp plays runs of a deployment; a run that is over is left alone, new items follow it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.coordinator.checkpoint import Checkpoint
from tacit.deployment import processes as module
from tacit.deployment import server
from tacit.deployment.catalogues import Items
from tacit.deployment.processes import Processes, Started, free_port, marked, start_run
from tacit.deployment.project import Plan, Project, Settings, make_project
from tacit.deployment.server import PLACE, REGISTERED, Served, play, run_names
from tacit.errors import TacitError
from tacit.experiment.folder import only_process
from tacit.experiment.resolve import resolve
from tacit.files import write_text
from tacit.flower.apps import make_client_app, open_node
from tacit.flower.in_process import InProcessGrid

pytest.importorskip("flwr")

ROOT = Path(__file__).parents[2]
NUMBERS = {"customer-1": 7, "customer-2": 8, "customer-3": 9}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The shop of the example, with three of its customers."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "deployment")
    import shop

    data, people = shop.histories(), list(shop.LIKES)
    experiment = resolve(
        "pfedrec",
        plugins=["ridge:modalities=text+image"],
        split="time",
        rounds=2,
        sets=["backbone.dim=4", "protocol.select=last"],
    )
    settings = Settings("shop", "127.0.0.1", 9091, tuple(NUMBERS), wait=0.0)
    items = Items(data.interactions.items, data.texts["title"], data.modalities)
    named = {node: (person,) for node, person in zip(NUMBERS, people, strict=False)}
    made = make_project(tmp_path / "shop", Plan(settings, experiment, items, named, data))
    write_text(made.server / REGISTERED, '{"customer-1": 7, "customer-2": 8, "customer-3": 9}')
    return made


def grid_of(project: Project, *absent: str) -> InProcessGrid:
    configs = {
        NUMBERS[one.name]: {"folder": str(one.data), "key": str(one.key)}
        for one in project.nodes
        if one.name not in absent
    }
    return InProcessGrid(make_client_app(), configs)


class Context:
    def __init__(self, **run_config: str) -> None:
        self.run_config = run_config


def test_a_run_and_then_a_new_product(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    import shop

    monkeypatch.setenv(PLACE, str(project.folder))
    grid = grid_of(project)
    play(grid, Context())
    assert run_names(project) == ["run-1"]
    log = project.server / "coordinator.log"
    assert "train: run run-1 has played 2 rounds" in log.read_text()
    new = shop.new_product()
    project.shelf.add([new.item], [new.title], shop.content([new]))
    play(grid, Context(task="new-items"))
    assert "21 items, is with 3 of 3 nodes" in log.read_text()
    for place in project.nodes:
        lines = open_node(place.data, place.key).recommend(21)
        assert new.item in [line.item for line in lines]
    play(grid, Context())
    assert run_names(project) == ["run-1", "run-2"]
    assert sys.modules["shop"] is shop


def test_a_node_that_was_away_at_the_end_gets_the_model_later(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, pull = {NUMBERS["customer-3"]}, InProcessGrid.pull_messages

    def some(grid: InProcessGrid, numbers: Iterable[str]) -> list[Any]:
        replies = pull(grid, numbers)
        return [one for one in replies if one.metadata.src_node_id not in lost]

    monkeypatch.setattr(InProcessGrid, "pull_messages", some)
    project = replace(project, settings=replace(project.settings, deadline=0.5, enough=0.6))
    served = Served(project, grid_of(project))
    served.play("train")
    assert served.play("deliver") == "the model of run run-1 is with 2 of 3 nodes"
    lost.clear()
    for _ in range(2):
        assert served.play("deliver") == "the model of run run-1 is with 3 of 3 nodes"
    assert run_names(project) == ["run-1"]


def test_an_unfinished_run_goes_on(project: Project) -> None:
    served = Served(project, grid_of(project))
    first = served.coordinator("run-1")
    first.advance()
    assert first.progress.stage == "exchange"
    served.play("train")
    assert run_names(project) == ["run-1"]
    found = Checkpoint(project.runs / "run-1" / "checkpoint").read()
    assert found is not None
    assert found[3].stage == "done"


def test_too_few_nodes_are_said(project: Project) -> None:
    with pytest.raises(TacitError, match="2 of 3 nodes are not online"):
        Served(project, grid_of(project, "customer-1", "customer-2")).play("train")


def test_mistakes_of_whoever_starts_a_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TacitError, match="There is no task 'tea'"):
        Served(project, grid_of(project)).play("tea")
    for name in ("../../elsewhere", "/tmp/elsewhere", "..", "Run 1"):
        with pytest.raises(TacitError, match="is no name for a run"):
            Served(project, grid_of(project)).play("train", name)
    with pytest.raises(TacitError, match="No run is over yet"):
        Served(project, grid_of(project)).play("new-items")
    monkeypatch.delenv(PLACE, raising=False)
    with pytest.raises(TacitError, match="TACIT_DEPLOYMENT"):
        play(grid_of(project), Context())
    (project.server / REGISTERED).unlink()
    with pytest.raises(TacitError, match="No node is registered"):
        Served(project, grid_of(project)).play("train")


@pytest.mark.slow
def test_the_demo_of_the_example() -> None:
    """Real processes, TLS and authentication: everything that `make deploy-demo` shows."""
    import subprocess

    script = ROOT / "examples" / "deployment" / "demo.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it is true" in done.stdout


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it outlives the command that started it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_was_started_is_stopped_and_leaves_no_zombie(project: Project) -> None:
    processes = Processes(project)
    processes._write(Started("mark-of-this-test", {}))
    child = "import time; print(1, flush=True); time.sleep(60)"
    number = processes.start("node-1", [sys.executable, "-c", child], project.folder)
    while not (processes.logs / "node-1.log").read_text():
        time.sleep(0.01)
    assert marked("mark-of-this-test") == [number]
    assert processes.down() == 1
    assert not Path(f"/proc/{number}").exists()
    assert processes.started() is None


LISTENS = """
import socket, sys, time
with socket.socket() as one:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", int(sys.argv[1])))
    one.listen()
    time.sleep(60)
"""


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_has_ended_is_started_again_beside_what_runs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = replace(project, settings=replace(project.settings, port=free_port()))
    processes, online = Processes(project), [{NUMBERS["customer-2"], 99}, {99}]
    port = str(project.settings.port)
    monkeypatch.setattr(
        module, "superlink_command", lambda _: [sys.executable, "-c", LISTENS, port]
    )
    monkeypatch.setattr(module, "supernode_command", lambda *_: ["/bin/sleep", "60"])
    monkeypatch.setattr(module, "register", lambda _: None)
    monkeypatch.setattr(module, "online_nodes", lambda _: online.pop(0) if online else set())

    def numbers() -> dict[str, int]:
        started = processes.started()
        assert started is not None
        return dict(started.processes)

    def end(name: str) -> None:
        os.kill(numbers()[name], signal.SIGKILL)
        os.waitpid(numbers()[name], 0)

    try:
        assert processes.up() == ("superlink", *NUMBERS)
        first = numbers()
        with pytest.raises(TacitError, match="is up"):
            processes.up()
        end("customer-2")
        assert processes.up() == ("customer-2",)
        assert online == []  # it was not started while the SuperLink believed it to be there
        end("superlink")
        assert processes.up() == ("superlink",)
        assert all(processes.alive().values())
        changed = {name for name, number in numbers().items() if number != first[name]}
        assert changed == {"superlink", "customer-2"}
        end("customer-3")
        monkeypatch.setattr(module, "MISSED_SECONDS", 0.0)
        monkeypatch.setattr(module, "online_nodes", lambda _: {NUMBERS["customer-3"]})
        with pytest.raises(TacitError, match="customer-3 is online"):
            processes.up()
        assert sum(processes.alive().values()) == 3  # what runs is left alone
    finally:
        processes.down()


def test_two_server_apps_are_not_at_work_at_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.0)
    with (
        only_process(project.runs),
        pytest.raises(TacitError, match="Another ServerApp of this deployment is at work"),
    ):
        Served(project, grid_of(project)).play("train")
    assert run_names(project) == []
    monkeypatch.setattr(server, "PATIENCE", 20.0)
    held = only_process(project.runs)
    held.__enter__()
    timer = threading.Timer(0.5, held.__exit__, (None, None, None))
    timer.start()
    Served(project, grid_of(project)).play("train")  # the other one ends meanwhile
    timer.join()
    assert run_names(project) == ["run-1"]


def test_nothing_is_up_that_was_not_started(project: Project) -> None:
    processes = Processes(project)
    assert processes.started() is None
    assert processes.alive() == {}
    assert processes.down() == 0
    assert marked("no such mark") == []
    with pytest.raises(TacitError):
        start_run(project)
