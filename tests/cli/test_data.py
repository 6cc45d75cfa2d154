"""`tacit data`: list, get, describe."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl

from tacit.data.sources import SOURCES


def test_list_says_what_is_here(tacit, monkeypatch, tmp_path):
    (tmp_path / "sources" / "ml-100k").mkdir(parents=True)
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "sources"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    said = tacit("data", "list")
    assert said.code == 0
    rows = {line.split()[0]: line.split() for line in said.out.splitlines() if line.split()}
    assert rows["planted"][1] == "always"
    assert rows["ml-100k"][1] == "yes"
    assert rows["ml-1m"][1] == "no"
    assert rows["ml-1m"][-3:] == ["6,040", "3,706", "1,000,209"]
    assert set(SOURCES) <= set(rows)


def test_get_a_named_source(tacit, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    said = tacit("data", "get", "ml-100k")
    assert said.code == 2
    assert "get them from their owner" in said.err
    (tmp_path / "ml-100k").mkdir()
    said = tacit("data", "get", "ml-100k")
    assert (said.code, said.out) == (0, f"ml-100k is here: {tmp_path / 'ml-100k'}\n")


def test_get_by_manifest(tacit, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    origin = tmp_path / "origin.csv"
    origin.write_text("user,item\na,x\n")
    digest = hashlib.sha256(origin.read_bytes()).hexdigest()
    Path("few.toml").write_text(
        f'name = "few"\nlicence = "free"\n[[file]]\nurl = "{origin.as_uri()}"\n'
        f'sha256 = "{digest}"\nbytes = {origin.stat().st_size}\npath = "few.csv"\n'
    )
    said = tacit("data", "get", "few.toml")
    assert (said.code, said.out) == (0, f"{tmp_path / 'cache' / 'few' / 'few.csv'}\n")
    assert tacit("data", "get", "few.toml", "--to", "there").code == 0
    assert Path("there", "few.csv").read_text() == origin.read_text()


def test_describe_counts_before_and_after(tacit):
    Path("plays.csv").write_text(
        "who,what,when\nann,x,1\nann,x,2\nann,y,2\nbob,x,5\nbob,z,6\ncid,x,7\n"
    )
    flags = ["--columns", "user=who,item=what,time=when", "--min-user", 2]
    about = json.loads(tacit("data", "describe", "plays.csv", *flags, "--json").out)
    assert [step["after"]["interactions"] for step in about["steps"]] == [5, 4]
    assert (about["users"], about["items"], about["duplicates"]) == (2, 3, 0)
    assert about["sparsity"] == 1 - 4 / 6
    kept = json.loads(
        tacit("data", "describe", "plays.csv", *flags, "--duplicates", "keep", "--json").out
    )
    assert (kept["interactions"], kept["duplicates"]) == (5, 1)
    text = tacit("data", "describe", "plays.csv", *flags, "--duplicates", "keep").out
    assert "5 rows, 4 distinct pairs" in text
    assert "6 → 5" in text
    assert "50.0% of users" in text  # ann's two latest rows have one time


def test_describe_planted(tacit):
    said = tacit("data", "describe", "planted")
    assert said.code == 0
    for words in ("300", "240", "8 to 80, median 21", "text title", "100.0% of items"):
        assert words in said.out


def test_describe_features(tacit):
    Path("few").mkdir()
    rows = {"user_id": ["a", "a", "b"], "item_id": ["x", "y", "x"], "rating": [1.0, 2.0, 3.0]}
    pl.DataFrame(rows).write_parquet("few/interactions.parquet")
    np.save("few/image_feat.npy", np.ones((1, 7), dtype=np.float32))
    Path("few/image_item_ids.txt").write_text("x\n")
    said = tacit("data", "describe", "few")
    assert said.code == 0, said.err
    assert "width 7, 50.0% of items" in said.out
    assert "columns         user, item, ratings" in said.out
