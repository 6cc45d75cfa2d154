"""`tacit demo`: one table, one person, one report; and what it will not remove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.cli import demo as demo_file


@pytest.fixture
def quick(monkeypatch):
    """The demo with three rounds in place of a hundred."""
    from tacit.study import compare as compare_file

    real = compare_file.compare

    def short(*arguments, **settings):
        return real(*arguments, **settings, rounds=3)

    monkeypatch.setattr(compare_file, "compare", short)


def test_demo_twice(tacit, quick):
    said = tacit("demo")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    rows = [line.split()[0] for line in lines if line.startswith("  ") and line.strip()]
    assert rows == ["method", "popularity", "fedmf", "pfedrec", "ease", "chance"]
    assert "no guarantee" in said.out
    assert any(line.startswith("user-0 liked: The ") for line in lines)
    (shown,) = (line for line in lines if line.startswith("shown next: "))
    assert shown.count(",") == 2
    report = Path(lines[-1].removeprefix("report    "))
    assert report.is_file()
    table = json.loads(Path("runs/demo/compare.json").read_text())
    assert [row["name"] for row in table["rows"]] == list(demo_file.KINDS)

    Path("runs/demo/fedmf/seed0/run.json").unlink()  # an interrupted demo is its own, too
    assert tacit("demo").code == 0


@pytest.mark.parametrize(
    "foreign", ["letter.txt", "fedmf/letter.txt", "fedmf/seed0/letter.txt", "mine/experiment.toml"]
)
def test_demo_removes_nothing_of_others(tacit, foreign):
    path = Path("runs/demo", foreign)
    path.parent.mkdir(parents=True)
    path.write_text("dear\n")
    said = tacit("demo")
    assert said.code == 2
    assert "did not write" in said.err
    assert path.read_text() == "dear\n"


def test_demo_follows_no_links(tacit):
    Path("precious").mkdir()
    Path("runs").mkdir()
    Path("runs/demo").symlink_to(Path("precious").resolve())
    assert tacit("demo").code == 2
    assert Path("precious").is_dir()
