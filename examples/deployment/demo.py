"""`make deploy-demo`: the shop over a real SuperLink and five SuperNodes, on this machine.

Day one: the nodes train together, and the result is compared with a simulation of the same.
An unregistered node tries to join. Day two: a new product arrives, and nodes recommend it. All that
nodes sent is searched for what must not be in it, and so is what a leaking node would send.
Everything that was started is stopped at the end, also after a failure.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import ssl
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from tacit.coordinator.checkpoint import Checkpoint
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.split import split_dataset
from tacit.deployment.catalogues import Items
from tacit.deployment.keys import make_authority, make_node_key
from tacit.deployment.processes import Processes, free_port, marked, start_run
from tacit.deployment.project import NodePlace, Plan, Project, Settings, make_project
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.flower.apps import open_node, read_copies
from tacit.node.device import Node
from tacit.node.kept import HISTORY, PRIVATE
from tacit.node.runs import PREFIX, STATE
from tacit.wire.messages import Letter

sys.path.insert(0, str(Path(__file__).parent))

from shop import LIKES, content, histories, new_product

ROUNDS = 2  # each exchange starts a process on every node
LIMIT = 420.0  # seconds for one day, on a busy machine
TOP = 5
NAME = "shop"


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGUN:6.1f} s  {text}", flush=True)


def require(true: bool, sentence: str) -> None:
    if not true:
        raise TacitError(sentence)


# The shop as a deployment, and as a simulation.


def experiment() -> Experiment:
    return resolve(
        "pfedrec",
        plugins=["ridge:modalities=text+image"],
        split="time",
        rounds=ROUNDS,
        sets=["backbone.dim=8", "protocol.select=last"],
    )


def project_of(data: Dataset, folder: Path) -> Project:
    people = dict(zip((f"customer-{n}" for n in range(1, 6)), LIKES, strict=True))
    settings = Settings(NAME, "127.0.0.1", free_port(), tuple(people), quorum=1.0, deadline=LIMIT)
    items = Items(data.interactions.items, data.texts["title"], data.modalities)
    named = {node: (person,) for node, person in people.items()}
    return make_project(folder, Plan(settings, experiment(), items, named, data))


def simulated(data: Dataset) -> dict[str, torch.Tensor]:
    """The same rounds on the readable reference engine, in one process."""
    found = experiment()
    train = split_dataset(data, found.protocol).train
    algorithm = found.method.algorithm(Task.of(train))
    engine = LoopEngine()
    state = engine.start(algorithm, train, found.seed)
    for _ in range(ROUNDS):
        engine.round(algorithm, train, state, everybody(train), found.seed)
    return dict(state.shared)


# What is done with the deployment.


def finished(project: Project, processes: Processes, done: str) -> None:
    """Wait until the server's log says that a task is done."""
    log, end = project.server / "coordinator.log", time.monotonic() + LIMIT
    while time.monotonic() < end:
        text = log.read_text(encoding="utf-8") if log.is_file() else ""
        if done in text:
            return
        require("ERROR" not in text, f"The server says: {text[-500:]}")
        ended = [name for name, lives in processes.alive().items() if not lives]
        require(not ended, f"{ended} ended before the work was done.")
        time.sleep(0.5)
    raise TacitError(f"The task took longer than {LIMIT:g} seconds.")


def refuse_intruder(project: Project, processes: Processes, folder: Path) -> None:
    """A node with a key that nobody registered must not come in."""
    shutil.copytree(project.nodes[0].folder, folder, ignore=shutil.ignore_patterns(".flwr"))
    place = NodePlace("intruder", folder)
    make_node_key("intruder").write(*place.auth)
    processes.start_node(place)
    end = time.monotonic() + 90.0
    log = processes.logs / "intruder.log"
    while "Exit Code: 305" not in log.read_text(encoding="utf-8", errors="replace"):
        require(time.monotonic() < end, "The intruder was not refused.")
        time.sleep(0.5)
    processes.forget("intruder")


def require_tls(project: Project, scratch: Path) -> str:
    """The one port speaks TLS with our certificate, and nothing else."""
    address = ("127.0.0.1", project.settings.port)
    with socket.create_connection(address, 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(5)
        try:
            heard = plain.recv(100)
        except OSError:
            heard = b""
    require(not heard.startswith(b"HTTP/"), "The SuperLink answers without TLS.")
    context = ssl.create_default_context(cafile=str(project.authority[0]))
    with (
        socket.create_connection(address, 5) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped,
    ):
        version = str(wrapped.version())
    other = scratch / "other.pem"
    other.write_bytes(make_authority("other").public)
    try:
        with socket.create_connection(address, 5) as raw:
            ssl.create_default_context(cafile=str(other)).wrap_socket(
                raw, server_hostname="127.0.0.1"
            )
    except ssl.SSLCertVerificationError:
        return version
    raise TacitError("Another authority was believed.")


# What must not be in a message.


def canaries(node: Node) -> dict[str, bytes]:
    """Names and items of a node's people, and every four numbers in a row of what they keep."""
    found = {f"the name {one}": one.encode() for one in node.people}
    found |= {f"the item {item}": item.encode() for _, item, _ in node.history()}
    for name in node.store.names():
        kept = node.store.read(name) if name.startswith(PREFIX) else None
        for key, value in (kept.arrays if kept is not None else {}).items():
            if key.startswith((STATE + PRIVATE, f"{STATE}{HISTORY}item")):
                found |= {
                    f"the private {key.removeprefix(STATE)} from {start} on": four.tobytes()
                    for start in range(value.size - 3)
                    if (four := value.ravel()[start : start + 4]).any()  # zeros tell nothing
                }
    return found


def leaks(letters: list[Letter], secrets: dict[str, bytes]) -> list[str]:
    """Which secrets stand in decoded messages."""
    hay = b"\0".join(
        [
            *(array.tobytes() for one in letters for array in one.arrays.values()),
            *(repr(one.values).encode() for one in letters),
            *(name.encode() for one in letters for name in one.arrays),
        ]
    )
    return [what for what, secret in secrets.items() if secret in hay]


def leaking(letter: Letter, node: Node) -> Letter:
    """The control: the same message with a bit of private state and a name in it."""
    [(_, secret)] = [pair for pair in canaries(node).items() if "private" in pair[0]][:1]
    stolen = np.frombuffer(secret, dtype=np.uint8)
    return Letter(letter.kind, {**letter.values, "note": node.people[0]}, {"noise": stolen})


# The two days.


def days(scratch: Path) -> None:
    data = histories()
    project = project_of(data, scratch / NAME)
    processes = Processes(project)
    say(f"made      {len(data.interactions.items)} products, {len(project.nodes)} nodes with keys")
    expected = simulated(data)
    mark = ""
    try:
        processes.up(copies=scratch / "copies")
        started = processes.started()
        mark = "" if started is None else started.mark
        say(f"up        SuperLink and {len(project.nodes)} SuperNodes, authenticated")
        start_run(project)
        version = require_tls(project, scratch)
        say(f"wire      {version}; without TLS or with another authority nobody gets in")
        refuse_intruder(project, processes, scratch / "intruder")
        say("intruder  a node with an unregistered key was refused")
        finished(project, processes, "train: run run-1")
        compare(project, expected)
        new = new_product()
        project.shelf.add([new.item], [new.title], content([new]))
        start_run(project, task="new-items")
        finished(project, processes, "new-items: version 2")
        recommended(project, new.item)
        search(project, scratch / "copies")
    finally:
        count = processes.down()
        say(f"down      {count} processes stopped")
    require(not mark or not marked(mark), "Something is still running.")


def compare(project: Project, expected: dict[str, torch.Tensor]) -> None:
    found = Checkpoint(project.runs / "run-1" / "checkpoint").read()
    require(found is not None, "The run has left no checkpoint.")
    assert found is not None
    shared = found[1].shared
    worst = max(float((shared[name] - value).abs().max()) for name, value in expected.items())
    require(worst <= 1e-6, f"The result differs from the simulated one by {worst:g}.")
    say(
        f"trained   {ROUNDS} rounds; the result is the simulated one (largest difference {worst:g})"
    )


def recommended(project: Project, item: str) -> None:
    """Whoever likes its kind is offered the new product, from the state of the node alone."""
    for_whom = []
    for place in project.nodes:
        node = open_node(place.data, place.key)
        lines = node.recommend(TOP)
        if item in [line.item for line in lines]:
            for_whom.append(
                f"{node.people[0].split('-')[0]} at place "
                f"{[line.item for line in lines].index(item) + 1}"
            )
    require(bool(for_whom), f"Nobody is offered {item}.")
    say(f"day two   {item} is recommended to {', '.join(for_whom)}")


def search(project: Project, copies: Path) -> None:
    total = 0
    for place in project.nodes:
        node = open_node(place.data, place.key)
        letters = read_copies(copies / place.name)
        total += len(letters)
        secrets = canaries(node)
        require(
            any("private" in what for what in secrets), "There is no private state to look for."
        )
        require(len(letters) >= ROUNDS, f"There are only {len(letters)} messages of {place.name}.")
        found = leaks(letters, secrets)
        require(not found, f"{place.name} sent {found}.")
        caught = leaks([*letters[:-1], leaking(letters[-1], node)], secrets)
        require(len(caught) >= 2, f"A leaking node was not caught: {caught}.")
    say(f"searched  {total} messages hold no name, no item and no private number; a leak is caught")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keep", type=Path, help="a new folder for all files; else they are deleted"
    )
    given = parser.parse_args()
    BEGUN = time.monotonic()
    torch.set_num_threads(1)
    try:
        if given.keep is not None:
            given.keep.mkdir(parents=True)
            days(given.keep.absolute())
        else:
            with tempfile.TemporaryDirectory() as place:
                days(Path(place))
    except TacitError as error:
        sys.exit(f"deploy-demo: {error}")
    say("done      all of it is true")
