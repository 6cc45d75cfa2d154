"""`tacit attack`: tables, files, JSON, and mistakes in one sentence."""

from __future__ import annotations

import csv
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


# Interactions and membership, of methods and of runs


def test_interactions_of_a_series(tacit, small):
    said = tacit(
        *("attack", "interactions", "pfedrec", *small, "--rounds", 2, "--epsilon", "none,8"),
        *("--with", "private:view=local", "--clients", "1,5", "--targets", 10, "--out", "a"),
    )
    assert said.code == 0, said.err
    assert "no guarantee" in said.out
    assert "ε = 8" in said.out
    assert "'history itself' must succeed: AUC 1.000 to 1.000" in said.out
    assert "of 8 intervals of sums lie above 0" in said.out
    written = [line.split()[1] for line in said.out.splitlines() if line.startswith("written")]
    assert sorted(Path(name).name for name in written) == [
        *("interactions-sums.png", "interactions-sums.svg", "interactions-uploads.png"),
        *("interactions-uploads.svg", "interactions.csv", "interactions.json"),
    ]
    page = json.loads(Path("a/interactions.json").read_text())
    plain, private = page["runs"]
    assert plain["privacy"] is None
    assert private["privacy"]["view"] == "local"
    assert abs(private["privacy"]["epsilon"] - 8) < 1e-6
    best = max(one["auc"]["mean"] for one in plain["attempts"] if one["clients"] == 1)
    assert best >= 0.95
    assert max(one["auc"]["mean"] for one in private["attempts"] if one["clients"] == 1) < 0.8
    with Path("a/interactions.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    # two runs, four attackers: two numbers of clients in one and two rounds, and two controls
    assert len(rows) == 2 * 4 * (2 * 2 + 2)
    assert {row["sees"] for row in rows} == {"an upload", "a sum", "history itself", "shuffled"}


def test_interactions_of_a_run_as_json(tacit, small):
    assert tacit("train", "fedmf", *small, "--rounds", 2, "--out", "run").code == 0
    said = tacit("attack", "interactions", "run", "--first", 2, "--targets", 5, "--json")
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    assert answer["attack"] == "interactions"
    [run] = answer["runs"]
    assert (run["run"], run["rounds"], run["targets"]) == ("fedmf", [2], 5)
    assert [Path(name).parent for name in answer["files"]] == [Path("run/attack")] * 4
    assert all(Path(name).is_file() for name in answer["files"])
    assert tacit("evaluate", "run").code == 0


def test_membership_of_a_series(tacit, small):
    asked = ("attack", "membership", "fedease", *small, "--rounds", 2, "--models", 16)
    said = tacit(*asked, "--epsilon", "none,1", "--json")
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    assert [run["privacy"] is None for run in answer["runs"]] == [True, False]
    first = answer["runs"][0]
    assert [one["attacker"] for one in first["attempts"]] == ["influence", "score"]
    musts = {one["name"]: one["must"] for one in first["controls"]}
    assert musts == {"told": "succeed", "shuffled": "fail"}
    names = sorted(Path(name).name for name in answer["files"])
    assert names == [
        "membership-auc.png",
        "membership-auc.svg",
        "membership.csv",
        "membership.json",
    ]
    plain = tacit(*asked, "--out", "b")
    assert plain.code == 0
    assert "models of" in plain.out
    assert "'told' must succeed" in plain.out


def test_mistakes_of_the_other_attacks(tacit, small):
    assert tacit("train", "fedease", *small, "--rounds", 1, "--out", "run").code == 0
    for arguments, sentence in (
        (("interactions", "pfedrek"), "Unknown method 'pfedrek'"),
        (("interactions", "run", "--rounds", 3), "'run' is a run"),
        (("interactions", "popularity"), "has all histories"),
        (("interactions", "fedmf", *small, "--epsilon", "8,x"), "Cannot read 'x' in --epsilon"),
        (("interactions", "fedmf", *small, "--epsilon", "-1"), "Cannot read '-1' in --epsilon"),
        (("interactions", "fedmf", *small, "--epsilon", ","), "names no budget"),
        (("interactions", "fedmf", *small, "--clients", "1,b"), "Cannot read --clients '1,b'"),
        (("interactions", "fedmf", *small, "--clients", "0"), "clients is 0"),
        (("interactions", "fedmf", *small, "--clients", "500"), "users to draw from"),
        (("interactions", "fedmf", *small, "--targets", 0), "--targets"),
        (("interactions", "fedease", *small, "--first", 3), "Nobody sends in round 3"),
        (("membership", "fedease", *small, "--models", 3), "models is 3"),
        (("membership", "fedease", *small, "--user", "nobody"), "no user 'nobody'"),
        (("membership", "fedease", *small, "--allowed", 0), "allowed is 0"),
        (("membership", "fedease", *small, "--delta", 3, "--models", 16), "delta is 3"),
    ):
        said = tacit("attack", *arguments, "--out", "bad")
        assert (said.code, said.out) == (2, ""), arguments
        assert sentence in said.err.splitlines()[-1], said.err
        assert not Path("bad").exists()
