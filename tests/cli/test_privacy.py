"""`tacit privacy plan`: a table, a JSON object, a figure, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image


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


@pytest.mark.parametrize("given", [["--noise", 2, "--rounds", 50], ["--epsilon", 8, "--rounds", 9]])
def test_the_figure_of_the_command(tacit, given):
    said = tacit("privacy", "plan", *given, "--figure", "plan.png")
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
