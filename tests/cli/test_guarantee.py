"""The words about a formal guarantee stand beside numbers of noisy runs wherever they are shown."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tacit.study.sweep import sweep
from tacit.study.sweep_files import sweep_chart, sweep_map

NOTHING = "no guarantee"
UNCOVERED = "; the choice on validation is not covered"
NOISY = {
    "laplace": ("fedmf", "--with", "laplace:scale=0.1"),
    "gaussian": ("fedmf", "--with", "clip:bound=1", "--with", "gaussian:sigma=0.1"),
    "noise of a custom method": ("fedpergnn", "--set", "laplace=0.1"),
    "private": ("fedease", "--with", "private:epsilon=4"),
}
LOCAL = "against a server that sees every upload and its sender"
SUM = "against a server that sees the sum of each round and who took part"
FEWEST = {**dict.fromkeys(NOISY, 1), "private": 2}  # rounds: counts come first in a claim
# the words of the fewest rounds, and of one more
WORDS = {
    "laplace": (NOTHING, NOTHING),
    "gaussian": (
        f"user-level ε = 284.4, δ = 1e-05 over 1 release, {LOCAL}{UNCOVERED}",
        f"user-level ε = 519.7, δ = 1e-05 over 2 releases, {LOCAL}{UNCOVERED}",
    ),
    "noise of a custom method": (NOTHING, NOTHING),
    "private": (f"user-level ε = 4, δ = 1e-05 over 1 release, {SUM}",) * 2,
}
SHORT = {
    "gaussian": "user-level ε = 284.4, δ = 1e-05, local, choice uncovered",
    "private": "user-level ε = 4, δ = 1e-05, secure sum",
}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def line_with(text: str, *words: str) -> str:
    """The line of a text that has all these words."""
    return next(line for line in text.splitlines() if all(word in line for word in words))


@pytest.mark.parametrize("noise", NOISY)
def test_one_run_and_runs_side_by_side(tacit, small, noise):
    command = ("train", *NOISY[noise], *small, "--rounds", FEWEST[noise], "--out", "noisy")
    said = tacit(*command)
    assert said.code == 0, said.err
    words, short = WORDS[noise][0], SHORT.get(noise, NOTHING)
    assert line_with(said.out, "privacy").startswith(f"privacy   {words}: ")
    assert ("claim     " in said.out) == (words != NOTHING)
    assert f"privacy: <b>{words}</b>" in Path("noisy", "report.html").read_text(encoding="utf-8")
    assert tacit("train", "popularity", *small, "--out", "plain").code == 0
    name = NOISY[noise][0]

    said = tacit("compare", "plain", "noisy", "--out", "both")
    assert said.code == 0, said.err
    assert name in line_with(said.out, "privacy", words)
    assert ("Validation chose no round of fedease" in said.out) == (noise == "private")
    stored = json.loads(Path("both", "compare.json").read_text())
    assert [row["privacy"] for row in stored["rows"]] == [NOTHING, words]
    assert words in line_with(Path("both", "compare.md").read_text(), f"| {name}")

    said = tacit("analyse", "cost", "plain", "noisy", "--out", "cost")
    assert said.code == 0, said.err
    assert words in line_with(said.out, f"note      {name}")
    for table in ("cost.csv", "cost-wire.csv"):
        assert [row["privacy"] for row in rows_of(Path("cost", table))] == [NOTHING, short]

    assert line_with(tacit("evaluate", "noisy").out, "privacy") == f"privacy   {words}"
    told = json.loads(tacit("evaluate", "noisy", "--json").out)["privacy"]
    assert told["guarantee"] == ("none" if words == NOTHING else words)
    assert (told["epsilon"] is None) == (words == NOTHING)


@pytest.mark.parametrize("noise", NOISY)
def test_a_sweep(tacit, small, noise):
    over = ("--over", f"rounds={FEWEST[noise]},{FEWEST[noise] + 1}")
    said = tacit("sweep", *NOISY[noise], *small, *over, "--out", "grid")
    assert said.code == 0, said.err
    chosen = "; the choice among these settings is not covered"
    told = "; ".join(dict.fromkeys(WORDS[noise])) + (chosen if noise in SHORT else "")
    assert line_with(said.out, "privacy") == f"privacy   {told}"
    assert [row["privacy"] for row in rows_of(Path("grid", "sweep.csv"))] == [*WORDS[noise]]
    again = json.loads(tacit("sweep", *NOISY[noise], *small, *over, "--out", "grid", "--json").out)
    assert [row["privacy"] for row in again["rows"]] == [*WORDS[noise]]


def test_the_figures_of_a_sweep(tmp_path):
    over = ["channel.1.scale=0,0.1", "local.epochs=1,2"]
    table = sweep("fedmf", over, tmp_path, rounds=1, plugins=["laplace"])
    for figure in (sweep_chart(table), sweep_map(table)):
        assert f"Privacy: {NOTHING}." in " ".join(figure.get_supxlabel().split())
