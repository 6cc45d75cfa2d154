"""`tacit node`: a device at the command line, and mistakes in one sentence."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tacit.experiment.resolve import resolve
from tacit.node.device import Node
from tacit.node.store import read_key
from tacit.testing.nodes import plan_of
from tacit.testing.synthetic import ragged
from tacit.wire.messages import Moment, Play, Played

DATA = ragged(n_users=2, n_items=12)
FEDMF = resolve("fedmf", sets=["backbone.dim=4"], rounds=3)


@pytest.fixture
def made(tacit) -> Path:
    """A node of two people, `ada` and `bo`."""
    lines = [f"{item},Title of {item}" for item in DATA.interactions.items]
    Path("items.csv").write_text("item,title\n" + "\n".join(lines) + "\n")
    init = ("node", "init", "device", "--key-file", "key", "--catalogue", "items.csv")
    said = tacit(*init, "--user", "ada", "--user", "bo", "--deployment", "shop")
    assert said.code == 0, said.err
    assert "ada, bo" in said.out
    return Path("device").absolute()


def play(folder: Path) -> None:
    node = Node.open(folder)
    table_ID = np.ones((len(node.catalogue), 4), np.float32)
    request = Play(Moment("shop", "first", 1), plan_of(FEDMF, DATA), {"items": table_ID})
    answer = node.answer(request)
    assert isinstance(answer, Played), answer


def test_from_init_to_leave(tacit, made: Path) -> None:
    assert oct(Path("key").stat().st_mode & 0o777) == "0o600"
    items = DATA.interactions.items
    for number, item in enumerate(items[:4]):
        assert (
            tacit("node", "record", made, item, "--time", 100 + number, "--user", "ada").code == 0
        )
    again = tacit("node", "record", made, items[0], "--user", "ada")
    assert (again.code, "recorded before" in again.err) == (0, True)
    assert Node.open(made).history()[0] == ("ada", items[0], 100)
    assert "no model yet" in tacit("node", "recommend", made, "--user", "ada").err
    play(made)
    said = tacit("node", "recommend", made, "--user", "ada", "-k", 3, "--json")
    told = json.loads(said.out)["model"]
    assert told == {"run": "first", "round": 1, "final": False, "state_round": 1}
    best = json.loads(said.out)["items"]
    assert [line["rank"] for line in best] == [1, 2, 3]
    assert best[0]["title"] == f"Title of {best[0]['item']}"
    assert not {line["item"] for line in best} & set(items[:4])
    assert "Title of" in tacit("node", "recommend", made, "--user", "ada").out
    seen = tacit("node", "inspect", made).out
    for words in ("ada (5)", "bo (0)", "round 1, exchange 0: upload of items", "nothing promised"):
        assert words in seen
    assert json.loads(tacit("node", "inspect", made, "--json").out)["epsilon"] == {"first": None}
    assert tacit("node", "export", made, "out").code == 0
    with Path("out", "history.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert rows[1] == {
        "user": "ada",
        "item": items[1],
        "title": f"Title of {items[1]}",
        "time": "101",
    }
    with Path("out", "sent.csv").open() as stream:
        assert [row["parameter"] for row in csv.DictReader(stream)] == ["items"]
    assert "something at 'out'" in tacit("node", "export", made, "out").err
    kept = tacit("node", "leave", made)
    assert (kept.code, made.exists()) == (2, True)
    assert "--yes" in kept.err
    assert tacit("node", "leave", made, "--yes").code == 0
    assert not made.exists()


def test_nothing_readable_lies_in_the_folder(tacit, made: Path) -> None:
    """Neither names nor items nor numbers of a person; and the key stands nowhere."""
    canary = DATA.interactions.items[3]
    Path("items.txt").write_text("canary-item-7351\n" + "\n".join(DATA.interactions.items))
    init = ("node", "init", "other", "--key-file", "key", "--catalogue", "items.txt")
    assert tacit(*init, "--user", "canary-person").code == 0
    tacit("node", "record", "other", "canary-item-7351")
    assert Node.open("other").history()[0][:2] == ("canary-person", "canary-item-7351")
    key = read_key(Path("key"))
    for file in (path for path in Path("other").rglob("*") if path.is_file()):
        content = file.read_bytes()
        assert b"canary" not in content, file
        assert key not in content
        assert key.hex().encode() not in content
        assert file.stat().st_mode & 0o077 == 0 or Path("other").stat().st_mode & 0o077 == 0
    assert canary


def mistake(said, *words: str) -> None:
    assert said.code == 2, said
    assert said.err.startswith("tacit: ")
    assert said.err.count("\n") == 1
    for word in words:
        assert word in said.err


def test_mistakes_are_one_sentence(tacit, made: Path, monkeypatch) -> None:
    record = ("node", "record", made, DATA.interactions.items[0])
    mistake(tacit("node", "record", made, "nothing", "--user", "ada"), "No item 'nothing'")
    mistake(tacit(*record, "--user", "eve"), "No user 'eve'", "ada, bo")
    mistake(tacit(*record), "2 people", "--user")
    mistake(tacit(*record, "--user", "ada", "--time", "nan"), "no number")
    mistake(tacit("node", "inspect", "nowhere"), "no node at 'nowhere'")
    mistake(tacit("node", "leave", "nowhere", "--yes"), "no node at 'nowhere'")
    mistake(tacit("node", "recommend", made, "--user", "ada", "-k", 0), "at least 1 item")
    Path("wrong").write_text("ab" * 32)
    mistake(tacit(*record, "--key-file", "wrong"), "Others than its owner")
    Path("wrong").chmod(0o600)
    mistake(tacit(*record, "--key-file", "wrong"), "does not open the node")
    Path("short").write_text("abc")
    Path("short").chmod(0o600)
    mistake(tacit(*record, "--key-file", "short"), "holds no key")
    monkeypatch.setenv("TACIT_NODE_KEY", "cd" * 32)
    mistake(tacit(*record), "does not open the node")
    monkeypatch.delenv("TACIT_NODE_KEY")
    init = ("node", "init", "new", "--key-file", "new-key", "--catalogue")
    mistake(tacit(*init, "none.csv"), "No file at 'none.csv'")
    Path("bad.csv").write_text("song\n1\n")
    mistake(tacit(*init, "bad.csv"), "no column item")
    Path("twice.txt").write_text("a\na\n")
    mistake(tacit(*init, "twice.txt"), "twice")
    mistake(tacit(*init, "items.csv", "--most-epsilon", "-1"), "above 0")
    mistake(tacit("node", "init", made, "--key-file", "key", "--catalogue", "items.csv"), "already")
    mistake(tacit("node", "init", "new", "--catalogue", "items.csv"), "TACIT_NODE_KEY")
    assert not Path("new").exists()
    assert not Path("new-key").exists()


def test_damage_is_said(tacit, made: Path) -> None:
    box = made / "settings.box"
    whole = box.read_bytes()
    for damaged in (whole[:-1], b"", whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]):
        box.write_bytes(damaged)
        mistake(tacit("node", "inspect", made), "settings.box", "is damaged")
    # nor can one box stand for another
    box.write_bytes((made / "catalogue.box").read_bytes())
    mistake(tacit("node", "inspect", made), "is damaged")
    box.write_bytes(whole)
    tacit("node", "record", made, DATA.interactions.items[0], "--user", "ada")
    (made / "history.sqlite").write_bytes(b"no database " * 400)
    for name in ("history.sqlite-wal", "history.sqlite-shm"):
        (made / name).unlink(missing_ok=True)
    mistake(tacit("node", "inspect", made), "history.sqlite")
    box.unlink()
    mistake(tacit("node", "inspect", made), "lost its settings")
    (made / "node.json").write_text("{}")
    mistake(tacit("node", "inspect", made), "damaged")


def test_the_key_may_stand_in_the_environment(tacit, monkeypatch) -> None:
    Path("items.txt").write_text("a\nb\n")
    monkeypatch.setenv("TACIT_NODE_KEY", "5e" * 32)
    assert tacit("node", "init", "device", "--catalogue", "items.txt").code == 0
    assert tacit("node", "record", "device", "a").code == 0
    monkeypatch.delenv("TACIT_NODE_KEY")
    mistake(tacit("node", "record", "device", "a"), "needs its key")
    assert "5e5e" not in "".join(p.read_text("latin1") for p in Path("device").iterdir())
    assert os.listdir("device")
