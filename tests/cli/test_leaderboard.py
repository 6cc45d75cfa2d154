"""`tacit leaderboard`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def runs(tacit: Any) -> Path:
    for name in ("popularity", "random"):
        assert tacit("train", name, "--out", f"runs/{name}").code == 0
    return Path("runs")


def test_a_page_and_a_table(tacit: Any, runs: Path) -> None:
    said = tacit("leaderboard", runs, "--out", "page")
    assert said.code == 0
    assert said.out.index("popularity") < said.out.index("random")
    assert "privacy   no guarantee: popularity, random" in said.out
    names = {path.name for path in Path("page").iterdir()}
    assert names == {f"leaderboard.{end}" for end in ("html", "md", "csv", "json")}


def test_json_is_the_file(tacit: Any, runs: Path) -> None:
    said = tacit("leaderboard", runs / "random", runs, "--out", "page", "--json")
    assert json.loads(said.out) == json.loads(Path("page/leaderboard.json").read_text())
    assert len(json.loads(said.out)["sections"][0]["rows"]) == 2


def test_a_forged_run_is_named_and_the_others_stand(tacit: Any, runs: Path) -> None:
    path = runs / "random" / "run.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    said = tacit("leaderboard", runs, "--out", "page")
    assert said.code == 0
    assert "random: refused:" in said.err
    assert "random" not in said.out
    alone = tacit("leaderboard", runs / "random", "--out", "other")
    assert alone.code == 2
    assert alone.err.startswith("tacit: None of these 1 runs can be ranked; the first, random")
    assert not Path("other").exists()


@pytest.mark.parametrize("given", [("nowhere",), (".",)])
def test_folders_without_runs_are_a_mistake(tacit: Any, given: tuple[str, ...]) -> None:
    said = tacit("leaderboard", *given, "--out", "page")
    assert said.code == 2
    assert said.err.count("\n") == 1
