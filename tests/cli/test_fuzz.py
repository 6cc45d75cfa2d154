"""Damaged files of every kind: the command answers, or refuses in one sentence."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tacit.cli.main import main
from tacit.content.encode import encode_table
from tacit.content.plain import NGrams
from tacit.content.recipes import recipes_of
from tacit.content.sources import Items, Texts
from tacit.data.load import load
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.toml import dumps

USERS, ITEMS = 6, 5
# What is put into files: what parsers, numbers, terminals and recursion stumble over.
PIECES = [
    *(
        b'"',
        b"'",
        b",",
        b"\t",
        b"::",
        b"\n",
        b"\r",
        b"\0",
        b"\x1b[2J",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ),
    *(b"nan", b"inf", b"-1", b"1e400", b"9" * 5000, b"true", b"null", b"\xc2\x9b31m", b" " * 50),
    *(b"[" * 3000, b"{" * 3000, b"2024-05-01T12:00:00Z", b"user_id", b"PAR1", b"\x1f\x8b", b"%s"),
]


def rows() -> list[tuple[str, str, str, str]]:
    return [
        (f"u{user}", f"i{(user + place) % ITEMS}", str(5 - place % 3), str(100 + place))
        for user in range(USERS)
        for place in range(4)
    ]


def table(mark: str, header: str | None) -> bytes:
    lines = [mark.join(row) for row in rows()]
    return "\n".join([*([header] if header else []), *lines, ""]).encode()


def parquet() -> bytes:
    columns = ["user_id", "item_id", "rating", "timestamp"]
    frame = pl.DataFrame(rows(), schema=columns, orient="row")
    file = io.BytesIO()
    frame.cast({"rating": pl.Float64, "timestamp": pl.Int64}).write_parquet(file)
    return file.getvalue()


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones((ITEMS, 3), np.float32))
    return file.getvalue()


HEADER = "user_id,item_id,rating,timestamp"
LABELLED = table("\t", "userID\titemID\trating\tx_label").replace(b"\t100", b"\t0")
# Each kind: the files of a folder, the one that is damaged first, and what is described.
KINDS: dict[str, tuple[dict[str, bytes], str]] = {
    "csv": ({"a.csv": table(",", HEADER)}, "a.csv"),
    "tsv": ({"a.tsv": table("\t", HEADER.replace(",", "\t"))}, "a.tsv"),
    "gzip": ({"a.csv.gz": gzip.compress(table(",", HEADER))}, "a.csv.gz"),
    "parquet": ({"a.parquet": parquet()}, "a.parquet"),
    "recbole": (
        {"a.inter": table("\t", "user_id:token\titem_id:token\trating:float\ttimestamp:float")},
        "a.inter",
    ),
    "mmrec": ({"a.inter": LABELLED, "text_feat.npy": npy()}, "a.inter"),
    "movielens": ({"u.data": table("\t", None), "u.item": b"i1|Alien|1979\n"}, "u.data"),
    "ninerec": (
        {"a_pair.csv": b"u1,i1,5\nu1,i2,6\n", "a_item.csv": b"i1,x,y\ni2,x,y\n"},
        "a_pair.csv",
    ),
    "citeulike": ({"users.dat": b"2 5 6\n1 5\n3 1 2 5\n"}, "users.dat"),
    "native": (
        {
            "interactions.csv": table(",", HEADER),
            "items.csv": b"item_id,title\ni1,Alien\ni2,Brazil\n",
            "image_feat.npy": npy(),
            "image_item_ids.txt": "".join(f"i{k}\n" for k in range(ITEMS)).encode(),
        },
        ".",
    ),
}


def damaged(data: bytes, chance: random.Random) -> bytes:
    """One to four changes of a file: bytes flipped, cut out, doubled, put in."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        stop = min(len(data), start + chance.choice((1, 2, 8, 40)))
        kind = chance.randrange(5)
        if kind == 0 and start < len(data):
            flipped = data[start] ^ (1 << chance.randrange(8))
            data = data[:start] + bytes([flipped]) + data[start + 1 :]
        elif kind == 1:
            data = data[:start] + data[stop:]
        elif kind == 2:
            data = data[:stop] + data[start:]
        elif kind == 3:
            data = data[:start]
        else:
            data = data[:start] + chance.choice(PIECES) + data[start:]
    return data


def answered(arguments: list[str], capsys: pytest.CaptureFixture) -> int:
    """The exit code; the command must have answered, or refused in one bounded sentence."""
    code = main(arguments)
    said = capsys.readouterr()
    assert code in (0, 2)
    assert not [c for c in said.out + said.err if not c.isprintable() and c != "\n"]
    if code == 2:
        assert said.out == ""
        assert said.err.startswith("tacit: ")
        assert said.err.count("\n") == 1
        assert len(said.err) < 2000
    return code


def describe_damaged(kind: str, seed: int, place: Path, capsys: pytest.CaptureFixture) -> int:
    chance = random.Random(f"{kind} {seed}")
    files, named = KINDS[kind]
    bad = chance.choice(list(files))
    for name, data in files.items():
        (place / name).write_bytes(damaged(data, chance) if name == bad else data)
    return answered(["data", "describe", str(place / named)], capsys)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_files_are_described(kind: str, tmp_path: Path, capsys) -> None:
    files, named = KINDS[kind]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    expected = 2 if kind == "mmrec" else 0  # its features are of numbered items; these have names
    assert answered(["data", "describe", str(tmp_path / named)], capsys) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_data_is_described_or_refused(kind: str, tmp_path: Path, capsys) -> None:
    codes = {describe_damaged(kind, seed, tmp_path, capsys) for seed in range(10)}
    assert 2 in codes  # some of it was damage


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_much_damaged_data(kind: str, tmp_path: Path, capsys) -> None:
    for seed in range(10, 160):
        describe_damaged(kind, seed, tmp_path, capsys)


def manifest(place: Path) -> bytes:
    origin = place / "origin.csv"
    origin.write_text("user,item\n")
    return (
        f'name = "few"\nlicence = "free"\n[[file]]\nurl = "{origin.as_uri()}"\n'
        f'sha256 = "{"0" * 64}"\nbytes = 10\npath = "few.csv"\n'
    ).encode()


def features(place: Path) -> bytes:
    texts = Texts.of(Items(("i0", "i1"), {"title": ("Alien", "Brazil")}))
    encode_table(texts, NGrams(), place)
    (place / "interactions.csv").write_bytes(table(",", HEADER))
    return (place / "text_feat.json").read_bytes()


SHORT = b'method = "fedmf"\nrounds = 3\nmin_rating = 2\n[set]\nsampling.negatives = 4\n'
Files = Callable[[Path], bytes]
# Files that are not data: how the first one is made, its name, and the command that reads it.
OTHERS: dict[str, tuple[Files, str, list[str]]] = {
    "manifest": (manifest, "few.toml", ["data", "get", "few.toml", "--to", "out"]),
    "short config": (lambda _: SHORT, "c.toml", ["train", "--dry-run", "--config", "c.toml"]),
    "saved config": (
        lambda _: dumps(resolve("fedmf", min_rating=2.0)).encode(),
        "c.toml",
        ["train", "--dry-run", "--config", "c.toml"],
    ),
    "feature manifest": (features, "text_feat.json", ["data", "describe", "."]),
}


def other_damage(kind: str, seeds: Iterator[int] | range, place: Path, capsys) -> set[int]:
    make, name, arguments = OTHERS[kind]
    whole = make(place)
    codes = set()
    for seed in seeds:
        (place / name).write_bytes(damaged(whole, random.Random(f"{kind} {seed}")))
        codes.add(answered(arguments, capsys))
    return codes


@pytest.mark.parametrize("kind", OTHERS)
def test_damaged_settings_are_read_or_refused(kind: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert 2 in other_damage(kind, range(12), tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_much_damaged_settings(kind: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other_damage(kind, range(12, 160), tmp_path, capsys)


WRONG = [None, True, -1, 1.5, "x", [], {}, [[]], {"a": 1}, "9" * 50]


def test_manifests_of_features_with_other_values(tmp_path: Path) -> None:
    """Valid JSON of the wrong shape, at every place of the first two levels."""
    whole = json.loads(features(tmp_path))
    inner = [("preprocessing", key) for key in whole["preprocessing"]]
    for path in [*((key,) for key in whole), *inner, ("preprocessing", "source", "columns")]:
        for value in WRONG:
            found = json.loads(json.dumps(whole))
            place = found
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            (tmp_path / "text_feat.json").write_text(json.dumps(found))
            for read in (lambda: recipes_of(str(tmp_path), ["text"]), lambda: load(tmp_path)):
                with contextlib.suppress(TacitError):
                    read()
