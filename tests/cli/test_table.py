"""`tacit table`: names, mistakes, the plan, and a small table filled."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tacit.benchmarks.tables import TABLES
from tacit.benchmarks.tables.definition import Data, Row, Table


@pytest.fixture
def few(monkeypatch):
    row = Row("popularity", "popularity", rounds=1, search_rounds=1, evaluate_every=1, free=True)
    table = Table("few", "Few", (row,), (Data("planted"),), (("full", "HR@10"),), 1)
    monkeypatch.setitem(TABLES, "few", table)


def test_without_a_name_all_are_listed(tacit):
    said = tacit("table")
    assert said.code == 0
    names = [line.split()[0] for line in said.out.splitlines()]
    assert names == list(TABLES)
    assert {"pfedrec-main", "fedrkg-main", "fedrkg-backbones", "bars", "fedmr-ku"} <= set(names)


def test_mistakes_are_one_line(tacit, few):
    assert "did you mean 'bars'" in tacit("table", "bar").err
    assert "at least 1" in tacit("table", "few", "--seeds", 0).err
    assert "above 0" in tacit("table", "few", "--budget", 0).err
    assert "No cell" in tacit("table", "few", "--only", "nothing").err
    said = tacit("table", "few", "--publish")
    assert (said.code, said.err) == (
        2,
        "tacit: There is no folder 'docs/results' to publish into.\n",
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tacit, few):
    said = tacit("table", "few", "--device", "cuda")
    assert (said.code, said.err) == (
        2,
        "tacit: There is no CUDA device here; use --device cpu.\n",
    )
    assert not Path("runs").exists()


def test_the_plan_alone_runs_nothing_and_then_it_is_filled(tacit, few):
    said = tacit("table", "few", "--estimate", "--seeds", 2)
    assert said.out.splitlines()[-1].startswith("plan      2 cells, 0 finished")
    assert not list(Path("runs").rglob("run.json"))

    said = tacit("table", "few", "--seeds", 2)
    assert said.code == 0, said.err
    written = Path("runs", "tables", "few")
    assert said.out.splitlines()[-1] == (
        f"written   {written / 'table-few.md'} and {written / 'table-few.json'}"
    )
    stored = json.loads((written / "table-few.json").read_text())
    assert [cell["status"] for cell in stored["cells"].values()] == ["done", "done"]
    value = 100 * stored["cells"]["popularity | planted | clean | seed 0"]["metrics"]["full HR@10"]
    assert f"| popularity | {value:.2f} ± 0.00 (2) |" in (written / "table-few.md").read_text()

    again = tacit("table", "few", "--seeds", 2)
    assert "2 cells, 2 finished, 0 cannot run; the other 0" in again.out


def test_without_seeds_the_table_says_how_many(tacit, few, monkeypatch):
    monkeypatch.setitem(TABLES, "few", replace(TABLES["few"], seeds=5))
    said = tacit("table", "few", "--estimate")
    assert said.out.splitlines()[-1].startswith("plan      5 cells, 0 finished")
