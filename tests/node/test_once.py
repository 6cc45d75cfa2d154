"""A moment is played once, whatever happens: repeated and old requests, full disks, kills."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.experiment.resolve import resolve
from tacit.node.device import Node
from tacit.node.runs import RunBox
from tacit.node.store import Content, Rows, Store
from tacit.testing.nodes import KEY, nodes_of
from tacit.testing.synthetic import ragged
from tacit.wire.messages import Played, Refused

DATA = ragged(n_users=3, n_items=24)
PFEDREC = resolve("pfedrec", sets=["backbone.dim=4"], rounds=9)


def kept(node: Node, server: Any) -> dict[str, np.ndarray]:
    box = RunBox.read(node.store, server.request().moment)
    return {} if box is None else box.state


def same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)


@pytest.fixture
def server(tmp_path: Path, tiny_server: Callable[..., Any]) -> Any:
    return tiny_server(PFEDREC, DATA, nodes_of(DATA, tmp_path / "nodes"))


def test_the_same_moment_twice_is_played_once(server: Any, asked: Callable[..., Any]) -> None:
    node = server.nodes[1]
    first = asked(node, server.request())
    state = kept(node, server)
    again = asked(Node.open(node.store.folder, KEY), server.request())
    assert isinstance(first, Played)
    assert same(first.arrays, again.arrays)
    assert (first.moment, first.weight, first.clients) == (again.moment, again.weight, 1)
    assert same(state, kept(node, server))
    assert len(node.ledger.read()) == 1
    # not even other parameters make it play again
    other = replace(server.request(), arrays={k: v + 1 for k, v in server.arrays().items()})
    assert same(first.arrays, asked(node, other).arrays)


def test_an_older_moment_is_refused(server: Any, asked: Callable[..., Any]) -> None:
    node, old = server.nodes[0], server.request()
    server.play_round()
    server.play_round()
    state = kept(node, server)
    answer = asked(node, old)
    assert isinstance(answer, Refused)
    assert answer.reason == "stale"
    assert same(state, kept(node, server))


def test_a_node_that_sat_out_goes_on(server: Any, asked: Callable[..., Any]) -> None:
    server.play_round()
    absent = server.nodes.pop(0)
    server.play_round()
    server.nodes.insert(0, absent)
    server.play_round()
    assert kept(absent, server)


def test_a_full_disk_leaves_the_old_state(
    server: Any, asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = server.nodes[1]
    server.play_round()
    before = kept(node, server)
    real = os.fdopen

    class Stream:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *_: object) -> None:
            self.inner.close()

        def write(self, content: bytes) -> None:
            self.inner.write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", lambda *a, **k: Stream(real(*a, **k)))
    answer = asked(node, server.request())
    monkeypatch.undo()
    assert isinstance(answer, Refused)
    assert answer.reason == "failed"
    assert same(before, kept(node, server))
    assert not list(node.store.folder.glob("*.part"))
    # and with room again the round is played as if nothing had been
    assert isinstance(asked(node, server.request()), Played)
    assert not same(before, kept(node, server))
    assert [entry.round_number for entry in node.ledger.read()] == [1, 2]  # and counted once


class Killed(BaseException):
    """What no handler of ours catches."""


def killed_at(crossing: int, patch: pytest.MonkeyPatch) -> None:
    """From now on a node dies at the n-th moment before or after one of its files is written."""
    left = [crossing]

    def dies_around(write: Callable[..., None]) -> Callable[..., None]:
        def written(*known: Any, **others: Any) -> None:
            for act in (None, write):
                if act is not None:
                    act(*known, **others)
                left[0] -= 1
                if left[0] == 0:
                    raise Killed

        return written

    patch.setattr(Store, "_write_file", dies_around(Store._write_file))
    patch.setattr(Rows, "extend", dies_around(Rows.extend))


def test_a_node_killed_at_any_write_of_a_round_plays_it_once(
    tmp_path: Path,
    server: Any,
    asked: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in the first round of a run, when there is nothing of it yet."""
    node, kills, deaths = server.nodes[1], 0, list[int]()
    twin = nodes_of(DATA, tmp_path / "twins")[1]
    for _ in range(2):
        request, answer = server.request(), None
        while answer is None:
            kills += 1
            with monkeypatch.context() as patch:
                killed_at(kills, patch)
                try:
                    answer = Node.open(node.store.folder, KEY).answer(request)
                except Killed:
                    continue
        deaths.append(kills - 1)
        kills = 0
        expected = asked(twin, request)
        assert isinstance(answer, Played), answer
        assert same(answer.arrays, expected.arrays)
        server.nodes = [one for one in server.nodes if one is not node]
        server.play_round()
        assert same(kept(node, server), kept(twin, server))
        assert node.ledger.read() == twin.ledger.read()
    assert len(node.ledger.read()) == 2
    assert min(deaths) >= 4  # before and after the ledger and the box


def test_leaving_deletes_all_and_ends_answers(server: Any, asked: Callable[..., Any]) -> None:
    node = server.nodes[0]
    server.play_round()
    node.leave()
    assert not node.store.folder.exists()
    assert asked(node, server.request()).reason == "left"
    assert not node.store.folder.exists()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from tacit.node.store import Content, Store
store = Store.open(Path(sys.argv[1]), bytes(range(32)))
number = int(store.read("one").values["number"])
while True:
    number += 1
    store.write("one", Content({"number": number}, {"a": np.full(200_000, float(number))}))
    print("wrote", flush=True)
"""


def kills(folder: Path, count: int) -> list[int]:
    """The numbers that stand in a box after each kill of a process that writes it over and over."""
    found = []
    for turn in range(count):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "wrote\n"  # it is at the next one
            time.sleep(0.02 + 0.0137 * (turn % 7))
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait(10)
            assert writer.stdout is not None
            writer.stdout.close()
        content = Store.open(folder, KEY).read("one")
        assert content is not None
        number = content.values["number"]
        assert (content.arrays["a"] == number).all()
        found.append(number)
    return found


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_kill_while_writing_leaves_a_whole_box(tmp_path: Path, count: int) -> None:
    with Store.create(tmp_path / "store", KEY) as store:
        store.write("one", Content({"number": 0}, {"a": np.zeros(200_000)}))
    found = kills(tmp_path / "store", count)
    assert found == sorted(set(found))  # what was written before a kill is there after it
    assert found[0] > 0
