"""`tacit sweep`: the grid, reuse of runs, validation's choice, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest


def rates(tacit, small, *more):
    return tacit(
        *("sweep", "fedmf", *small, "--rounds", 2, "--out", "grid"),
        *("--over", "local.items.rate=0.01,1", "--over", "backbone.dim=4,8", *more),
    )


def test_a_grid_is_run_once_and_written(tacit, small):
    said = rates(tacit, small)
    assert said.code == 0, said.err
    assert (
        said.out.splitlines()[-1] == "written   grid/sweep.csv, grid/sweep.png and grid/sweep.svg"
    )
    assert "the choice is validation's alone" in said.out
    with Path("grid", "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    points = [(row["local.items.rate"], row["backbone.dim"]) for row in rows]
    assert points == [("0.01", "4"), ("0.01", "8"), ("1", "4"), ("1", "8")]
    values = [float(row["validation NDCG@10 full"]) for row in rows]
    assert [row["chosen"] for row in rows].index("yes") == values.index(max(values))
    for row, (rate, dim) in zip(rows, points, strict=True):
        folder = Path("grid", f"local.items.rate={rate}+backbone.dim={dim}", "seed0")
        assert row["runs"] == str(folder)
        result = json.loads((folder / "run.json").read_text())
        assert float(row["test HR@10 full"]) == result["metrics"]["full"]["HR@10"]
        assert float(row["validation NDCG@10 full"]) == result["test_released"]["validation_value"]
    assert Path("grid", "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert Path("grid", "sweep.svg").read_text().startswith("<?xml")
    assert "written   grid/sweep-map.png and grid/sweep-map.svg" in said.out
    assert Path("grid", "sweep-map.png").read_bytes().startswith(b"\x89PNG")

    stamps = {path: path.stat().st_mtime_ns for path in Path("grid").rglob("run.json")}
    assert len(stamps) == 4
    cut = Path("grid", "local.items.rate=1+backbone.dim=4", "seed0", "run.json")
    cut.unlink()  # as if it had been stopped
    again = rates(tacit, small, "--json")
    table = json.loads(again.out)
    assert [row["validation"] for row in table["rows"]] == values
    changed = [p for p in stamps if p.stat().st_mtime_ns != stamps[p]]
    assert changed == [cut]


def test_seeds_are_averaged_and_test_has_no_say(tacit, small):
    said = tacit(
        *("sweep", "fedmf", *small, "--rounds", 2, "--seeds", 2, "--out", "two", "--json"),
        *("--over", "local.epochs=1,3"),
    )
    table = json.loads(said.out)
    assert table["seeds"] == 2
    for row, epochs in zip(table["rows"], ("1", "3"), strict=True):
        results = [
            json.loads(Path("two", f"local.epochs={epochs}", f"seed{seed}", "run.json").read_text())
            for seed in (0, 1)
        ]
        mean = sum(result["test_released"]["validation_value"] for result in results) / 2
        assert row["validation"] == pytest.approx(mean, abs=1e-12)
        assert row["deviation"] is not None
        hits = sum(result["metrics"]["full"]["HR@10"] for result in results) / 2
        assert row["test"]["full"]["HR@10"] == pytest.approx(hits, abs=1e-12)
    values = [row["validation"] for row in table["rows"]]
    assert table["chosen"] == values.index(max(values))


def test_the_argument_of_a_plug_in_is_a_field(tacit, small):
    said = tacit(
        *("sweep", "fedmf", *small, "--rounds", 1, "--with", "clip:bound=1", "--out", "one"),
        *("--over", "channel.1.bound=0.5,2"),
    )
    assert said.code == 0, said.err
    text = Path("one", "channel.1.bound=2", "seed0", "experiment.toml").read_text()
    assert "bound = 2.0" in text
    assert f"fedmf + clip:bound=1 on {small[1]}" in said.out.replace("\n", "")


def test_a_diverging_setting_does_not_end_the_sweep(tacit, small):
    said = tacit(
        *("sweep", "fedmf", *small, "--rounds", 3, "--out", "one"),
        *("--over", "local.items.rate=1e30,0.1"),
    )
    assert said.code == 0, said.err
    assert "diverged" in said.out
    assert "local.items.rate=1e30 diverged with seed 0" in said.out
    assert "choice *  local.items.rate=0.1:" in said.out
    with Path("one", "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["validation NDCG@10 full"] == "" for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (("--set", "protocol.select_metric=HR@50"), ("HR@50", "NDCG@50")),
        (("--set", "protocol.select_metric=MRR@5"), ("HR@5", "NDCG@5")),
        (("--with", "ridge", "--set", "backbone.dim=4"), ("Recall@20", "NDCG@20")),
    ],
)
def test_test_values_are_shown_whatever_selects(tacit, flags, shown):
    over = ("--over", "rounds=1,2", "--out", "one")
    said = tacit("sweep", "pfedrec", *flags, *over)
    assert said.code == 0, said.err
    with Path("one", "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    header = Path("one", "sweep.csv").read_text().splitlines()[0].split(",")
    assert len(header) == len(set(header))  # `rounds` is a field, and not the rounds selected
    assert [row["rounds"] for row in rows] == ["1", "2"]
    columns = (f"test {shown[0]} full", f"test {shown[1]} full", f"test {shown[0]} sampled99")
    for row in rows:
        line = next(line for line in said.out.splitlines() if line.split()[:1] == [row["rounds"]])
        values = [f"{float(row[name]):.4f}" for name in columns]
        assert " ".join(values) in " ".join(line.split())


def test_the_edge_of_a_grid_is_said(tacit, small):
    said = tacit(
        *("sweep", "fedmf", *small, "--rounds", 1, "--out", "one", "--over", "local.epochs=1,2")
    )
    assert "The choice lies at the edge of local.epochs" in said.out


def test_unclean_protocols_are_marked(tacit, small):
    said = tacit(
        *("sweep", "fedmf", *small, "--rounds", 1, "--out", "one", "--over", "local.epochs=1,2"),
        *("--protocol", "pfedrec"),
    )
    assert "[pfedrec protocol: not comparable with clean]" in said.out
    assert "(HR@10, 99 sampled)" in said.out


@pytest.mark.parametrize(
    ("over", "sentence"),
    [
        ([], "Nothing to sweep over"),
        (["local.epochs"], "Cannot read --over 'local.epochs'"),
        (["local.epochs=1,,2"], "Cannot read --over"),
        (["local.epoch=1,2"], "did you mean 'epochs'"),
        (["local.items.rate=fast,slow"], "unable to parse string as a number"),
        (["local.epochs=1,2", "local.epochs=3"], "--over local.epochs is there twice"),
        (["local.items.rate=0.1,1e-1"], "are the same setting"),
        (["seed=1,2"], "say how many with --seeds"),
        (["protocol.ties=expected,pessimistic"], "different protocols do not compare"),
        (["data.min_user=5,10"], "different data do not compare"),
    ],
)
def test_mistakes_are_said_before_anything_is_run(tacit, small, over, sentence):
    flags = [flag for text in over for flag in ("--over", text)]
    said = tacit("sweep", "fedmf", *small, *flags, "--out", "one")
    assert said.code == 2
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1
    assert not Path("one").exists()
