"""`tacit analyse`: tables, files, JSON, and mistakes in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def trained(tacit, small):
    for name in ("fedmf", "pfedrec"):
        assert tacit("train", name, *small, "--rounds", 2, "--out", name).code == 0
    return tacit


def test_tables_and_files(trained):
    said = trained("analyse", "groups", "fedmf", "pfedrec", "--n", 20)
    assert said.code == 0, said.err
    assert "Change from fedmf to pfedrec" in said.out
    written = [line.split()[1] for line in said.out.splitlines() if line.startswith("written")]
    assert written == [
        f"fedmf/analysis/{name}"
        for name in ("groups.csv", "groups-change.csv", "groups.png", "groups.svg")
    ]
    assert all(Path(name).is_file() for name in written)
    again = trained("analyse", "inference", "pfedrec", "--out", "here")
    assert sorted(path.name for path in Path("here").iterdir()) == [
        "inference.csv",
        "inference.png",
        "inference.svg",
    ]
    assert "another's" in again.out


def test_json(trained):
    said = trained("analyse", "curves", "fedmf", "pfedrec", "--metric", "NDCG@10", "--json")
    answer = json.loads(said.out)
    assert answer["analysis"] == "curves"
    assert answer["runs"] == ["fedmf", "pfedrec"]
    assert [row["run"] for row in answer["tables"]["curves-summary"]] == ["fedmf", "pfedrec"]
    assert len(answer["tables"]["curves"]) == 4
    assert all(Path(name).is_file() for name in answer["files"])


def test_a_run_still_resumes_and_compares_with_an_analysis_in_its_folder(trained, small):
    assert trained("analyse", "cost", "fedmf").code == 0
    assert trained("train", "fedmf", *small, "--rounds", 2, "--out", "fedmf", "--resume").code == 0
    assert trained("evaluate", "fedmf").code == 0


def test_mistakes(trained):
    for arguments, sentence in (
        (("curve", "fedmf"), "Unknown analysis 'curve'; did you mean 'curves'?"),
        (("curves", "nowhere"), "No run at 'nowhere'"),
        (("clouds", "fedmf"), "fedmf makes no rows for new items"),
        (("clouds", "fedmf", "pfedrec"), "clouds trains one run again, not 2"),
        (("gates", "fedmf"), "fedmf has no gates"),
        (("router", "fedmf"), "fedmf reads nothing of an item but its id"),
        (("modalities", "fedmf"), "fedmf reads nothing of an item but its id"),
        (("groups", "fedmf", "--user", "x"), "--user is not for groups"),
        (("groups", "fedmf", "--n", 0), "n is 0"),
        (("embeddings", "fedmf", "--user", "x"), "No user 'x' in the data"),
        (("embeddings", "fedmf", "--projection", "umap"), "Unknown projection 'umap'"),
        (("curves", "fedmf", "--ranking", "sampled"), "did you mean 'sampled99'"),
        (("curves", "fedmf", "fedmf"), "given twice"),
    ):
        said = trained("analyse", *arguments, "--out", "bad")
        assert said.code == 2, arguments
        assert sentence in said.err
        assert len(said.err.splitlines()) == 1
        assert not Path("bad").exists()
    Path("fedmf", "run.json").unlink()
    said = trained("analyse", "curves", "fedmf")
    assert (said.code, said.out) == (2, "")
    assert "'fedmf' is not finished" in said.err
