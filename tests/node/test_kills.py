"""A node's process is killed while it writes: its state is the one before or the one after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.split import split_dataset
from tacit.engines.state import initial_state
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.files import PART
from tacit.node.device import Node
from tacit.node.runs import RunBox
from tacit.testing.nodes import KEY, nodes_of, plan_of
from tacit.wire.messages import Moment, Play, Played

ITEMS, HISTORY = 4000, 300  # a box of some megabytes, so that writing it takes a while
KILLS = 20
MOST_STARTS = 60
LIMIT = 600.0  # seconds; it takes a tenth of that on a core of one's own

# What a ClientApp does with its messages, one after another: rounds from where the node stands.
PLAYER = """
import json, sys
from pathlib import Path
import numpy as np
from tacit.node.device import Node
from tacit.node.runs import RunBox
from tacit.wire.messages import Moment, Play, Played, RunPlan

folder, asked = Path(sys.argv[1]), Path(sys.argv[2])
plan = RunPlan(**json.loads((asked / "plan.json").read_text()))
arrays = dict(np.load(asked / "arrays.npz"))
node = Node.open(folder, bytes(range(32)))
box = RunBox.read(node.store, Moment("shop", "first", 1))
number = 0 if box is None else box.played[0]
while True:
    number += 1
    answer = node.answer(Play(Moment("shop", "first", number), plan, arrays))
    assert isinstance(answer, Played), answer
    print(number, flush=True)
"""


def one_reader() -> Dataset:
    """One person with a long history."""
    item_N = np.random.default_rng(0).permutation(ITEMS)[:HISTORY]
    user_N, time_N = np.zeros(HISTORY, dtype=np.int64), np.arange(HISTORY)
    items = tuple(f"item-{number}" for number in range(ITEMS))
    return Dataset("reader", Interactions(user_N, item_N, ("reader",), items, time_N))


def first_values(experiment: Experiment, data: Dataset) -> dict[str, np.ndarray]:
    """The shared parameters that a server begins with."""
    train = split_dataset(data, experiment.protocol).train
    algorithm = experiment.method.algorithm(Task.of(train))
    state = initial_state(algorithm, train, experiment.seed, torch.float32)
    return {name: value.numpy() for name, value in state.shared.items()}


@contextmanager
def playing(folder: Path, asked: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that plays one round after another; it is gone at the end."""
    command = [sys.executable, "-c", PLAYER, str(folder), str(asked)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def killed_while_writing(folder: Path, asked: Path, pause: float) -> tuple[int, bool]:
    """Kill a process at the first file that it is seen to write, some time after its first round.
    The last round that it told of, and whether it was in the midst of a file."""
    with playing(folder, asked) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, "the node's process ended by itself"
        time.sleep(pause)
        while not _half_written(folder) and process.poll() is None:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        told = [first, *process.stdout.read().split("\n")[:-1]]
    return int(told[-1]), _half_written(folder)


def _half_written(folder: Path) -> bool:
    return any(name.endswith(PART) for name in os.listdir(folder))


def box_of(folder: Path) -> RunBox:
    """What a node keeps of the run; it is opened as if nothing had happened."""
    node = Node.open(folder, KEY)
    assert len(node.history()) == HISTORY
    assert len(node.recommend(5)) == 5
    box = RunBox.read(node.store, Moment("shop", "first", 1))
    assert box is not None
    times = [entry.round_number for entry in node.ledger.read()]
    last = box.played[0]
    assert times in (list(range(1, last + 1)), list(range(1, last + 2)))  # written before the box
    return box


def require_same(found: RunBox, wanted: RunBox) -> None:
    assert (found.played, found.trained, found.closed) == (
        wanted.played,
        wanted.trained,
        wanted.closed,
    )
    assert found.answer is not None
    assert wanted.answer is not None
    for here, there in ((found.state, wanted.state), (found.answer.arrays, wanted.answer.arrays)):
        assert here.keys() == there.keys()
        for name, array in there.items():
            assert np.array_equal(here[name], array), name


@pytest.mark.slow
def test_twenty_kills_while_it_writes_leave_the_state_before_or_after(tmp_path: Path) -> None:
    """A twin that nobody kills plays the same rounds."""
    experiment = resolve("pfedrec", sets=["backbone.dim=64"], rounds=10_000)
    data, asked = one_reader(), tmp_path / "asked"
    [node], [twin] = nodes_of(data, tmp_path / "nodes"), nodes_of(data, tmp_path / "twins")
    plan, arrays = plan_of(experiment, data), first_values(experiment, data)
    asked.mkdir()
    (asked / "plan.json").write_text(json.dumps(asdict(plan)))
    np.savez(asked / "arrays.npz", **arrays)
    random, until = np.random.default_rng(0), time.monotonic() + LIMIT
    kills, number = 0, 0
    for _ in range(MOST_STARTS):
        assert time.monotonic() < until
        pause = float(random.uniform(0.0, 0.2))
        told, in_the_midst = killed_while_writing(node.store.folder, asked, pause)
        found = box_of(node.store.folder)
        assert found.played in ((told, 0), (told + 1, 0))  # the state before, or the one after
        while number < found.played[0]:
            number += 1
            answer = twin.answer(Play(Moment("shop", "first", number), plan, arrays))
            assert isinstance(answer, Played), answer
        require_same(found, box_of(twin.store.folder))
        kills += in_the_midst
        if kills == KILLS:
            break
    assert kills == KILLS
