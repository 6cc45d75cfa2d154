"""`python -m lab.table`: names, mistakes, and a small table filled."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

import lab.table as command
from lab.definition import Data, Row, Table, load_table, table_names
from tacit.cli.main import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """Run `python -m lab.table ARGUMENTS` in an empty folder, as on a machine with one core: jobs
    are then run here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "cores", lambda: 1)
    capsys.readouterr()

    def call(*arguments: object) -> Said:
        code = main([str(argument) for argument in arguments], command.app)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


def few_table(seeds: int = 3) -> Table:
    row = Row("popularity", "popularity", rounds=1, search_rounds=1, evaluate_every=1, free=True)
    data = (Data("planted"),)
    return replace(Table("few", "Few", (row,), data, (("full", "HR@10"),), 1), seeds=seeds)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        command, "load_table", lambda name: few_table() if name == "few" else load_table(name)
    )


def test_without_a_name_all_are_listed(table):
    said = table()
    assert said.code == 0
    names = [line.split()[0] for line in said.out.splitlines()]
    assert names == table_names()
    assert {"pfedrec-main", "fedrkg-main", "fedrkg-backbones", "baselines", "fedmr-ku"} <= set(
        names
    )


def test_mistakes_are_one_line(table, few):
    assert "did you mean 'baselines'" in table("baseline").err
    assert "at least 1" in table("few", "--seeds", 0).err
    assert "above 0" in table("few", "--budget", 0).err
    assert "at least 1" in table("few", "--workers", 0).err
    assert "No cell" in table("few", "--only", "nothing").err
    said = table("few", "--publish")
    assert (said.code, said.err) == (
        2,
        "tacit: There is no folder 'docs/results' to publish into.\n",
    )
    assert not Path("runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(table, few):
    said = table("few", "--device", "cuda")
    assert (said.code, said.err) == (
        2,
        "tacit: There is no CUDA device here; use --device cpu.\n",
    )
    assert not Path("runs").exists()


def test_a_table_is_filled_and_then_stands(table, few):
    said = table("few", "--seeds", 2)
    assert said.code == 0, said.err
    written = Path("runs", "tables", "few")
    assert said.out.splitlines()[-1] == (
        f"written   {written / 'table-few.md'} and {written / 'table-few.json'}"
    )
    stored = json.loads((written / "table-few.json").read_text())
    assert [cell["status"] for cell in stored["cells"].values()] == ["done", "done"]
    value = 100 * stored["cells"]["popularity | planted | clean | seed 0"]["metrics"]["full HR@10"]
    assert f"| popularity | {value:.2f} ± 0.00 (2) |" in (written / "table-few.md").read_text()

    again = table("few", "--seeds", 2)
    assert "2 cells, 2 finished, 0 cannot run; 0 are to be run" in again.out


def test_without_seeds_the_table_says_how_many(table, monkeypatch):
    monkeypatch.setattr(command, "load_table", lambda name: few_table(seeds=5))
    said = table("few", "--only", "seed 0")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0].startswith("plan      1 cells, 0 finished")
    stored = json.loads(Path("runs", "tables", "few", "table-few.json").read_text())
    assert (stored["seeds"], len(stored["cells"])) == (5, 5)
