"""`tacit privacy`: plans and ledgers as tables, JSON and figures, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tacit.experiment.folder import RunFolder


def test_the_command(tacit):
    said = tacit("privacy", "plan", "--epsilon", 8, "--rounds", 100, "--users", 6040)
    assert (said.code, said.err) == (0, "")
    for words in ("6.00229", "0.5943", "8.0000", "0.0772322", "0.000993757", "user-level ε = 8"):
        assert words in said.out
    assert "20.6755" in tacit("privacy", "plan", "--noise", 2, "--rounds", 50).out
    assert "allows 11 releases" in tacit("privacy", "plan", "--noise", 2, "--epsilon", 8).out


def test_the_command_as_json(tacit):
    said = tacit("privacy", "plan", "--noise", 2, "--rounds", 50, "--json")
    found = json.loads(said.out)
    assert found["computed"] == "epsilon"
    assert found["epsilon"] == pytest.approx(20.6755, abs=5e-5)
    assert (found["view"], found["delta"], found["rounds"]) == ("secure_sum", 1e-5, 50)
    assert found["noise_of_device"] is None


def test_the_figure_of_the_command(tacit):
    said = tacit("privacy", "plan", "--noise", 2, "--rounds", 50, "--figure", "plan.png")
    assert said.out.endswith("written   plan.png\n")
    with Image.open("plan.png") as picture:
        assert picture.width > 600


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--noise", 2], "Give exactly two of --epsilon, --noise, --rounds"),
        (["--noise", 2, "--rounds", 1, "--view", "sums"], "Unknown view 'sums'"),
        (["--noise", 2, "--rounds", 1, "--figure", "a.pdf"], "does not end in .png"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(tacit, given, words):
    said = tacit("privacy", "plan", *given)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert list(Path().iterdir()) == []


# What crossed in a run


@pytest.fixture
def trained(tacit, small):
    def train(name: str, *flags: object) -> None:
        said = tacit("train", name, *small, "--rounds", 2, "--out", "run", *flags)
        assert said.code == 0, said.err

    return train


def test_the_ledger_of_a_run(tacit, trained):
    trained("fedmf", "--with", "clip:bound=1")
    said = tacit("privacy", "ledger", "run")
    assert (said.code, said.err) == (0, "")
    for words in ("items", "clip:bound=1,order=2", "40 × 32", "the server, each", "no guarantee"):
        assert words in said.out
    found = json.loads(tacit("privacy", "ledger", "run", "--json").out)
    stored = json.loads(Path("run", "run.json").read_text())["ledger"]
    assert found == {"run": "run", "privacy": "no guarantee", **stored}
    up, down = stored["crossings"]
    assert (up["direction"], up["times"], up["times_per_client"]) == ("up", 120, 2)
    assert (up["readers"], down["readers"]) == (["server_each"], ["participants", "released"])
    page = Path("run", "report.html").read_text(encoding="utf-8")
    assert "Ledger of 2 rounds" in page
    assert "clip:bound=1,order=2" in page


def test_the_ledger_of_a_run_that_sends_nothing(tacit, trained):
    trained("local_only")
    assert "ledger    Nothing left a device.\n" in tacit("privacy", "ledger", "run").out
    page = Path("run", "report.html").read_text(encoding="utf-8")
    assert "Nothing left a device." in page
    assert "What clients were sent" not in page


def test_an_older_run_has_no_ledger(tacit, trained):
    trained("fedmf")
    file = Path("run", "run.json")
    older = json.loads(file.read_text())
    del older["ledger"]
    older["format"] = 4
    file.write_text(json.dumps(older))
    RunFolder(Path("run")).write_checksums(file.read_text())
    said = tacit("privacy", "ledger", "run")
    assert (said.code, said.out) == (2, "")
    assert "has no ledger, since an older version of tacit made it; train again." in said.err


def test_no_run(tacit):
    said = tacit("privacy", "ledger", "nothing")
    assert (said.code, said.out) == (2, "")
    assert "No run at 'nothing'" in said.err
