"""Two versions of tacit are compared by what small experiments give, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tacit
from lab import same_numbers


def test_every_method_is_played() -> None:
    assert sorted(same_numbers.METHODS) == sorted(tacit.METHODS)
    keys = [case.key for case in same_numbers.cases()]
    assert len(keys) == len(set(keys))


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int | str | None, str]]:
    """`python -m lab.same_numbers WORDS`: its exit code or last sentence, and what it printed. What
    a record plays is played in processes of its own all the same."""

    def call(*words: object) -> tuple[int | str | None, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["lab.same_numbers", *map(str, words)])
        try:
            code: int | str | None = same_numbers.main()
        except SystemExit as end:
            code = end.code
        return code, capsys.readouterr().out

    return call


@pytest.fixture(params=["here", pytest.param("processes", marks=pytest.mark.slow)])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that play the passes of a record. They are played in processes of their own, or
    read in this one as such a process reads them."""
    started: list[list[str]] = []
    run = subprocess.run

    def played(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess:
        started.append(command)
        if request.param == "processes":
            return run(command, env=env, check=False)
        with monkeypatch.context() as words:
            words.setattr(sys, "argv", command[2:])
            return subprocess.CompletedProcess(command, same_numbers.main())

    monkeypatch.setattr(same_numbers.subprocess, "run", played)
    return started


def test_two_experiments_are_recorded_and_compared(
    command, passes: list[list[str]], tmp_path: Path
) -> None:
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    code, _ = command("record", base, "--only", '["fedmf", {"rounds": 2, "protocol": "fed')
    assert code == 0
    script = str(Path(same_numbers.__file__).resolve())
    assert len(passes) >= 2  # until two in a row agree
    assert all(one[:4] == [sys.executable, "-P", script, "play"] for one in passes)
    found = json.loads(base.read_text())
    first, second = found.values()  # under two protocols
    assert first["metrics"]["full"]["HR@10"] > 0
    assert first["ranks"] != second["ranks"]
    assert first["cost"]
    first["seconds"] = 1e6  # time is nothing that counts
    new.write_text(json.dumps(found))
    assert same_numbers.compare(base, new) == 0
    first["metrics"]["full"]["HR@10"] += 2**-50
    new.write_text(json.dumps(found))
    assert command("compare", base, base) == (0, "same 2, different 0\n")
    code, told = command("compare", base, new)
    assert code == 1
    key = '["fedmf", {"rounds": 2, "protocol": "fedrkg"}]'
    assert told.splitlines()[0] == f"{key}: metrics"


def test_a_choice_of_nothing_is_refused(command, tmp_path: Path) -> None:
    ended, _ = command("record", tmp_path / "out.json", "--only", "nothing of this name")
    assert "leave --only out" in ended  # a sentence: the exit code is 1
    assert not (tmp_path / "out.json").exists()


def test_an_experiment_that_was_lost_is_a_difference(tmp_path: Path) -> None:
    one, none = tmp_path / "one.json", tmp_path / "none.json"
    one.write_text(json.dumps({"a": {"ranks": "1"}}))
    none.write_text("{}")
    assert same_numbers.compare(one, none) == 1
    assert same_numbers.compare(none, none) == 1  # nothing compared is nothing shown
