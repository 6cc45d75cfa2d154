"""Boxes and rows: what goes in comes out, and nothing stands for something else."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.node.catalogue import Catalogue, read_catalogue_file
from tacit.node.device import Node
from tacit.node.ledger import Entry, SentLedger, SentParameter, spent
from tacit.node.store import Content, Rows, Store, make_key, read_key

KEY = bytes(range(32))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.create(tmp_path / "store", KEY) as made:
        pass
    return made


ARRAYS = {
    "number": np.array(3.5),
    "empty": np.zeros((0, 4), np.float32),
    "table": np.arange(6, dtype=np.int64).reshape(2, 3),
    "turned": np.arange(6.0).reshape(2, 3).T,
    "flags": np.array([True, False]),
    "bytes": np.frombuffer(b"\x00\xff", dtype=np.uint8),
}


def test_arrays_come_back_with_shape_and_type(store: Store) -> None:
    values = {"text": "ä", "none": None, "list": [1, 2.5], "inner": {"x": True}}
    store.write("one", Content(values, ARRAYS))
    again = store.read("one")
    assert again is not None
    assert again.values == values
    assert again.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert again.arrays[name].dtype == array.dtype, name
        assert again.arrays[name].shape == array.shape, name
        assert np.array_equal(again.arrays[name], array), name
    assert store.names() == ["one"]
    assert store.read("two") is None


def test_every_box_has_its_own_nonce(store: Store) -> None:
    sealed = {store.seal("one", b"the same") for _ in range(50)}
    assert len({one[:12] for one in sealed}) == 50
    assert {store.unseal("one", one) for one in sealed} == {b"the same"}


def test_a_box_stands_for_no_other(store: Store, tmp_path: Path) -> None:
    """Neither under another name, nor on another node with the same key."""
    store.write("one", Content({"a": 1}))
    (store.folder / "two.box").write_bytes((store.folder / "one.box").read_bytes())
    with pytest.raises(TacitError, match="damaged"):
        store.read("two")
    with Store.create(tmp_path / "other", KEY) as other:
        pass
    (other.folder / "one.box").write_bytes((store.folder / "one.box").read_bytes())
    with pytest.raises(TacitError, match="damaged"):
        other.read("one")


def test_a_row_belongs_to_its_person(store: Store) -> None:
    rows = Rows(store, "rows.sqlite")
    rows.extend([(0, b"first"), (1, b"second")])
    assert [(row.place, row.person, row.text) for row in rows.read()] == [
        (1, 0, b"first"),
        (2, 1, b"second"),
    ]
    with sqlite3.connect(rows.path) as connection:
        connection.execute("UPDATE rows SET person = 0 WHERE place = 2")
    connection.close()
    with pytest.raises(TacitError, match="Row 2"):
        rows.read()


def test_a_named_row_is_written_once(store: Store) -> None:
    ledger = SentLedger(store)
    sent = (SentParameter("items", (3, 2), 24),)
    for epsilon in (0.5, 0.75):
        ledger.write(Entry("shop", "a", 1, 0, "upload", sent, 1, epsilon))
    ledger.write(Entry("shop", "a", 1, 0, "hits of valid", sent))
    ledger.write(Entry("shop", "b", 1, 0, "upload", sent, 1, None))
    entries = ledger.read()
    assert [(entry.run, entry.kind) for entry in entries] == [
        ("a", "upload"),
        ("a", "hits of valid"),
        ("b", "upload"),
    ]
    assert spent(entries) == {"a": 0.75, "b": None}
    assert [len(ledger.counted("shop", run)[0]) for run in ("a", "c")] == [1, 0]


def test_a_store_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Store.create(tmp_path / "new", KEY):
        raise RuntimeError("somebody stopped it")
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(TacitError, match="already"), Store.create(tmp_path / "full", KEY):
        pass
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_keys_are_random_and_their_files_private(tmp_path: Path) -> None:
    keys = [make_key(tmp_path / str(number)) for number in range(3)]
    assert len(set(keys)) == 3
    assert read_key(tmp_path / "1") == keys[1]
    with pytest.raises(TacitError, match="could not be written"):
        make_key(tmp_path / "1")  # never over one that is there
    assert read_key(tmp_path / "1") == keys[1]


def test_a_key_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(TacitError, match="could not be written"):
            make_key(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []
    make_key(tmp_path / "key")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 1, "identity": "a", "check": "b", "more": 1}',
        '{"format": 1, "identity": 3, "check": "b"}',
        '{"format": 1, "identity": "a", "check": "b", "key_file": 7}',
    ],
)
def test_a_damaged_header_is_said(text: str, store: Store) -> None:
    (store.folder / "node.json").write_text(text)
    with pytest.raises(TacitError, match=r"node.json' is damaged"):
        Store.open(store.folder)


def test_files_are_for_their_owner_alone(store: Store) -> None:
    Rows(store, "rows.sqlite").append(0, b"one")
    store.write("one", Content({}))
    modes = {path.name: path.stat().st_mode & 0o777 for path in store.folder.iterdir()}
    assert {"rows.sqlite", "one.box", "node.json"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_people_without_names_have_names_of_their_own(tmp_path: Path) -> None:
    """The same name on two devices would be the same randomness."""
    nodes = [Node.init(tmp_path / str(n), KEY, Catalogue(("a",))) for n in range(2)]
    assert nodes[0].people != nodes[1].people


def test_catalogues_of_people(tmp_path: Path) -> None:
    files = {
        "ids.txt": "a\n\nb\n",
        "table.csv": "title,item\nOne,a\nTwo,b\n,\n",
        "table.tsv": "item\ttitle\na\tOne\nb\tTwo\n",
        "whole.json": '{"ids": ["a", "b"], "titles": ["One", "Two"], "version": 3}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        found = read_catalogue_file(tmp_path / name)
        assert found.ids == ("a", "b"), name
        assert found.titles in ((), ("One", "Two"))
        assert found.digest == Catalogue(("a", "b")).digest
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(TacitError, match="no catalogue"):
        read_catalogue_file(tmp_path / "bad.json")


def test_a_row_does_not_tell_by_its_length_what_it_is_about(tmp_path: Path) -> None:
    items = ("a", "an-item-with-a-long-name-" * 2, "b")
    node = Node.init(tmp_path / "node", KEY, Catalogue(items), users=["ada"])
    node.record_all([(item, 10**place, None) for place, item in enumerate(items)])
    with sqlite3.connect(tmp_path / "node" / "history.sqlite") as connection:
        sizes = [size for (size,) in connection.execute("SELECT length(box) FROM rows")]
    connection.close()
    assert len(sizes) == 3
    assert len(set(sizes)) == 1
    assert [item for _, item, _ in node.history()] == list(items)


@pytest.mark.parametrize("time", [10**30, -(2**63), 2.0**63, 1e300])
def test_a_time_that_cannot_be_read_again_is_refused(tmp_path: Path, time: float) -> None:
    node = Node.init(tmp_path / "node", KEY, Catalogue(("a", "b")), users=["ada"])
    with pytest.raises(TacitError, match="no number"):
        node.record("a", time)
    node.record("b", 2**63 - 1)
    assert node.histories().time_N.tolist() == [2**63 - 1]


def test_leaving_waits_for_an_answer_that_is_being_made(tmp_path: Path) -> None:
    """What an answer writes at its end must not bring the folder back."""
    node = Node.init(tmp_path / "node", KEY, Catalogue(("a", "b")), users=["ada"])
    inside, go_on, steps = threading.Event(), threading.Event(), []

    def answers() -> None:
        with node.store.alone():
            inside.set()
            go_on.wait(10)
            node.store.write("run-1", Content({"round": 1}))
            steps.append("written")

    def leaves() -> None:
        node.leave()
        steps.append("left")

    threads = [threading.Thread(target=answers), threading.Thread(target=leaves)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    threads[1].join(0.3)
    go_on.set()
    for one in threads:
        one.join(10)
    assert steps == ["written", "left"]
    assert not (tmp_path / "node").exists()


def test_keys_and_nodes_are_there_after_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file lasts once its folder was written to the disk as well as itself."""
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), real(handle))
    )
    (tmp_path / "keys").mkdir()
    (tmp_path / "nodes").mkdir()
    key = make_key(tmp_path / "keys" / "key")
    Node.init(tmp_path / "nodes" / "one", key, Catalogue(("a", "b")), users=["ada"])
    for path in ("keys/key", "keys", "nodes/one", "nodes"):
        assert (tmp_path / path).stat().st_ino in synced, path
