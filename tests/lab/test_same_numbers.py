"""Two versions of tacit are compared by what small experiments give, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import tacit
from lab import same_numbers

ROOT = Path(__file__).parents[2]


def test_every_method_is_played() -> None:
    assert sorted(same_numbers.METHODS) == sorted(tacit.METHODS)
    keys = [case.key for case in same_numbers.cases()]
    assert len(keys) == len(set(keys))


def command(*words: object) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "-m", "lab.same_numbers", *map(str, words)]
    return subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_two_experiments_are_recorded_and_compared(tmp_path: Path) -> None:
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    done = command("record", base, "--only", '["fedmf", {"rounds": 2, "protocol": "fed')
    assert done.returncode == 0, done.stderr
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
    same = command("compare", base, base)
    other = command("compare", base, new)
    assert (same.returncode, same.stdout) == (0, "same 2, different 0\n")
    assert other.returncode == 1
    key = '["fedmf", {"rounds": 2, "protocol": "fedrkg"}]'
    assert other.stdout.splitlines()[0] == f"{key}: metrics"


def test_a_choice_of_nothing_is_refused(tmp_path: Path) -> None:
    done = command("record", tmp_path / "out.json", "--only", "nothing of this name")
    assert done.returncode != 0
    assert "leave --only out" in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_an_experiment_that_was_lost_is_a_difference(tmp_path: Path) -> None:
    one, none = tmp_path / "one.json", tmp_path / "none.json"
    one.write_text(json.dumps({"a": {"ranks": "1"}}))
    none.write_text("{}")
    assert same_numbers.compare(one, none) == 1
    assert same_numbers.compare(none, none) == 1  # nothing compared is nothing shown
