"""`tacit attack inversion`: tables, files, JSON, and mistakes in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def trained(tacit):
    for plugin in ("mdifffr", "ridge"):
        done = tacit("train", "pfedrec", "--with", plugin, "--rounds", 1, "--out", plugin)
        assert done.code == 0, done.err
    return tacit


def test_one_run(trained):
    said = trained("attack", "inversion", "mdifffr", "--seeds", 1, "--draws", 3)
    assert said.code == 0, said.err
    assert "cold items from their embeddings" in said.out
    assert "mean of 3" in said.out
    assert "no guarantee" in " ".join(said.out.split())
    written = [line.split()[1] for line in said.out.splitlines() if line.startswith("written")]
    assert written == [
        f"mdifffr/attack/inversion{name}"
        for name in (
            ".csv",
            ".json",
            "-radar.png",
            "-radar.svg",
            "-structure.png",
            "-structure.svg",
        )
    ]
    assert all(Path(name).is_file() for name in written)
    # a folder of the run with an attack in it is still a run
    assert trained("evaluate", "mdifffr").code == 0


def test_several_runs_as_json(trained):
    said = trained(
        "attack",
        "inversion",
        "mdifffr",
        "ridge",
        "--seeds",
        1,
        "--draws",
        2,
        "--out",
        "a",
        "--json",
    )
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    assert answer["attack"] == "inversion"
    assert [run["run"] for run in answer["runs"]] == ["pfedrec + mdifffr", "pfedrec + ridge"]
    # one generator draws noise, the other has nothing to draw
    assert [run["draws"] for run in answer["runs"]] == [2, 1]
    for run in answer["runs"]:
        floor = run["attempts"][0]
        assert (floor["attacker"], floor["mean"]["pearson"]) == ("mean", 0.0)
    assert all(Path(name).is_file() for name in answer["files"])
    assert sorted(path.name for path in Path("a").glob("*.png")) == [
        "inversion-radar.png",
        "inversion-structure-pfedrec+mdifffr.png",
        "inversion-structure-pfedrec+ridge.png",
    ]


def test_mistakes(trained, small):
    assert trained("train", "fedmf", *small, "--rounds", 1, "--out", "fedmf").code == 0
    for arguments, sentence in (
        (("nowhere",), "No run at 'nowhere'"),
        (("fedmf",), "makes no rows for new items"),
        (("ridge", "--leaked", 0), "leaked is 0"),
        (("ridge", "--leaked", 1.5), "leaked is 1.5"),
        (("ridge", "--leaked", 0.05), "pfedrec + ridge: Too few items to attack"),
        (("ridge", "--seeds", 0), "--seeds"),
        (("ridge", "--draws", 0), "--draws"),
        (("ridge", "ridge"), "given twice"),
        (("ridge", "fedmf"), "do not compare"),
    ):
        said = trained("attack", "inversion", *arguments, "--out", "bad")
        assert (said.code, said.out) == (2, ""), arguments
        assert sentence in said.err
        assert len(said.err.splitlines()) == 1
        assert not Path("bad").exists()
