"""The command in process, in a folder of its own, and a small file of interactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tacit.cli.main import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Tacit = Callable[..., Said]


@pytest.fixture
def tacit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Tacit:
    """Run `tacit ARGUMENTS` in an empty folder; what it printed and its exit code."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    capsys.readouterr()

    def call(*arguments: object) -> Said:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 people and 40 items of a planted dataset, as a CSV file with column names of its own."""
    from tacit.data.planted import planted_dataset

    rows = planted_dataset(n_users=60, n_items=40, mean_history=12.0).interactions
    assert rows.time_N is not None
    lines = [
        f"{rows.users[u]},{rows.items[i]},{t}"
        for u, i, t in zip(rows.user_N, rows.item_N, rows.time_N, strict=True)
    ]
    path = tmp_path_factory.mktemp("data") / "plays.csv"
    path.write_text("listener,song,played\n" + "\n".join(lines) + "\n")
    return path


COLUMNS = "user=listener,item=song,time=played"


@pytest.fixture
def small(plays: Path) -> list[str]:
    """The flags that name the small file."""
    return ["--data", str(plays), "--columns", COLUMNS]
