"""`tacit compare`: files, reuse of runs, and what it refuses to put into one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_writes_its_files_and_uses_runs_again(tacit, small):
    command = ["compare", "popularity", "fedmf", *small, "--seeds", 2, "--rounds", 2]
    said = tacit(*command, "--out", "both")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "written   both/compare.md and both/compare.json"
    table = json.loads(Path("both", "compare.json").read_text())
    assert [row["name"] for row in table["rows"]] == ["popularity", "fedmf"]
    assert [row["seeds"] for row in table["rows"]] == [[0, 1], [0, 1]]
    assert table["against"] == "popularity"
    assert table["users"] == 60

    first, second = table["rows"]
    assert first["difference"] is None
    test = second["difference"]
    assert test["low"] <= test["difference"] <= test["high"]
    assert test["difference"] == pytest.approx(second["value"] - first["value"], abs=1e-12)
    assert second["p_holm"] == test["p_value"]  # one method only: nothing to adjust
    values = [
        json.loads(Path("both", "fedmf", f"seed{k}", "run.json").read_text())["metrics"]
        for k in (0, 1)
    ]
    mean = sum(value["full"]["NDCG@10"] for value in values) / 2
    assert second["value"] == pytest.approx(mean, abs=1e-12)
    assert second["spread"]["deviation"] > 0
    assert set(table["reference"]) == {"popularity", "chance"}

    text = Path("both", "compare.md").read_text()
    assert "| fedmf |" in text
    assert "*chance* (reference)" in text
    assert "not comparable" not in text

    stamps = {path: path.stat().st_mtime_ns for path in Path("both").rglob("run.json")}
    assert len(stamps) == 4
    Path("both", "fedmf", "seed1", "run.json").unlink()  # as if it had been stopped
    again = tacit(*command, "--out", "both", "--json")
    after = {path: path.stat().st_mtime_ns for path in Path("both").rglob("run.json")}
    changed = [str(path) for path in stamps if after[path] != stamps[path]]
    assert changed == ["both/fedmf/seed1/run.json"]
    assert json.loads(again.out) == table


def test_finished_runs_are_grouped_by_seed(tacit, small):
    for seed in (0, 1):
        tacit("train", "fedmf", *small, "--rounds", 1, "--seed", seed, "--out", f"f{seed}")
        tacit("train", "random", *small, "--seed", seed, "--out", f"r{seed}")
    said = tacit("compare", "f0", "r1", "f1", "r0", "--json", "--metric", "MRR@5")
    assert said.code == 0, said.err
    table = json.loads(said.out)
    assert [(row["name"], row["seeds"]) for row in table["rows"]] == [
        ("fedmf", [0, 1]),
        ("random", [1, 0]),
    ]
    assert table["notes"] == ["The rows have different seeds."]
    assert 0 < table["reference"]["chance"]["full"]["MRR@5"] < 0.2
    assert sorted(path.name for path in Path().iterdir()) == ["f0", "f1", "r0", "r1"]
    twice = tacit("compare", "f0", "r0", "f0")
    assert twice.code == 2
    assert "hold the same run (seed 0)" in twice.err
    useless = tacit("compare", "f0", "r0", "--rounds", 3)
    assert useless.code == 2
    assert "only finished runs are given" in useless.err


def test_plug_ins_against_the_best(tacit, small):
    said = tacit(
        *("compare", "random", "fedmf+clip:bound=0.5", "popularity", *small),
        *("--seeds", 1, "--rounds", 1, "--against", "popularity", "--json"),
    )
    table = json.loads(said.out)
    assert [row["name"] for row in table["rows"]] == [
        "random",
        "fedmf + clip:bound=0.5",
        "popularity",
    ]
    assert table["against"] == "popularity"
    assert table["rows"][2]["difference"] is None
    adjusted = [row["p_holm"] for row in table["rows"][:2]]
    raw = [row["difference"]["p_value"] for row in table["rows"][:2]]
    assert min(adjusted) == pytest.approx(min(1.0, 2 * min(raw)))
    assert Path("runs/compare-plays-clean/fedmf+clip_bound=0.5/seed0/run.json").is_file()


@pytest.mark.parametrize("metric", ["NDCG@10", "HR@10", "MRR@5"])
def test_no_column_is_there_twice(tacit, small, metric):
    said = tacit(
        *("compare", "random", "popularity", *small, "--seeds", 1),
        *("--metric", metric, "--out", "both"),
    )
    lines = Path("both", "compare.md").read_text().splitlines()
    header = next(line for line in lines if line.startswith("| Method"))
    titles = [cell.strip() for cell in header.strip("|").split("|")]
    assert len(titles) == len(set(titles))
    assert {f"{metric}, full", "HR@10, full", "NDCG@10, full", "HR@10, 99 sampled"} <= set(titles)
    values = {line.count("|") for line in lines if line.startswith("|")}
    assert values == {len(titles) + 1}
    shown = next(line for line in said.out.splitlines() if "over seeds" in line)
    columns = [title for title in shown.strip().split("  ") if title]
    assert len(columns) == len(set(columns))
    assert metric in columns[0]


def test_another_number_of_sampled_items_is_said(tacit, small):
    few = (*small, "--set", "protocol.sampled=20")
    said = tacit("train", "random", *few, "--out", "one")
    assert "sampled ranking is over 20 drawn items" in said.out
    assert "among 20 drawn items" in Path("one", "report.html").read_text(encoding="utf-8")
    compared = tacit("compare", "random", "popularity", *few, "--seeds", 1, "--out", "both")
    assert "sampled ranking is over 20 drawn items" in compared.out
    assert "sampled ranking is over 20 drawn items" in Path("both", "compare.md").read_text()
    swept = tacit("sweep", "fedmf", *few, "--over", "rounds=1,2", "--out", "grid")
    assert "sampled ranking is over 20 drawn items" in swept.out


def test_protocols_are_not_mixed(tacit, small):
    tacit("train", "popularity", *small, "--protocol", "pfedrec", "--out", "leaky")
    said = tacit("compare", "random", "leaky", *small, "--out", "both")
    assert said.code == 2
    assert "random and popularity do not compare" in said.err
    assert "protocol is 'clean' for the one and 'pfedrec' for the other" in said.err
    assert not Path("both").exists()


def test_splits_and_data_are_not_mixed(tacit, small):
    tacit("train", "popularity", *small, "--out", "one")
    split = tacit("compare", "random", "one", *small, "--split", "random", "--out", "both")
    assert "protocol.split.order is 'random' for the one and 'time' for the other" in split.err
    data = tacit("compare", "random", "one", "--data", "planted", "--out", "both")
    assert "data is 'planted' for the one and" in data.err
    assert (split.code, data.code) == (2, 2)
    assert not Path("both").exists()


def test_unclean_comparisons_are_marked(tacit, small):
    said = tacit(
        *("compare", "random", "popularity", *small, "--seeds", 1),
        *("--protocol", "pfedrec", "--out", "both"),
    )
    mark = "[pfedrec protocol: not comparable with clean]"
    assert mark in said.out
    assert f"**{mark}**" in Path("both", "compare.md").read_text()


def test_another_experiment_in_the_same_place(tacit, small):
    command = ["compare", "random", "fedmf", *small, "--seeds", 1, "--out", "both"]
    assert tacit(*command, "--rounds", 1).code == 0
    said = tacit(*command, "--rounds", 2)
    assert said.code == 2
    assert "'both/random/seed0' holds another experiment" in said.err


def test_unfinished_runs_are_refused(tacit, small):
    tacit("train", "popularity", *small, "--out", "one")
    Path("one", "run.json").unlink()
    said = tacit("compare", "random", "one", *small)
    assert said.code == 2
    assert "'one' is not finished" in said.err
