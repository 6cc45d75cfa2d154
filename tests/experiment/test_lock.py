"""One process at a time runs in a folder, and a kill before the first whole file costs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.experiment.add_items import add_items
from tacit.experiment.folder import LOCK, RunFolder, only_process
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.toml import dumps

CODE = "import sys, tacit.cli.main as m; sys.exit(m.main(sys.argv[1:]))"
ROUNDS = 150


def start(out: Path) -> subprocess.Popen[bytes]:
    command = f"train fedmf --rounds {ROUNDS} --checkpoint-seconds 0 --resume --threads 1 --out"
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *command.split(), str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for_rounds(out: Path, process: subprocess.Popen[bytes]) -> None:
    lines, deadline = out / "metrics.jsonl", time.monotonic() + 120
    while not (lines.is_file() and lines.read_text().count("\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped otherwise there")
def test_two_at_once_and_a_kill(tmp_path: Path) -> None:
    out, experiment = tmp_path / "one", resolve("fedmf", rounds=ROUNDS)
    first = start(out)
    try:
        wait_for_rounds(out, first)
        os.kill(first.pid, signal.SIGSTOP)  # it holds the folder, however slow it is
        with pytest.raises(TacitError) as caught:
            run(experiment, out, resume=True)
        assert str(caught.value) == (
            f"Another process is running in {str(out)!r}; wait until it has ended, or choose "
            "another out=."
        )
        os.kill(first.pid, signal.SIGCONT)
    finally:
        first.kill()
        first.wait(timeout=60)
    result = run(experiment, out, resume=True)  # the system has let go of the lock
    assert result.rounds_run == ROUNDS
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(1, ROUNDS + 1))
    assert not (out / LOCK).exists()


def test_a_reader_needs_no_lock(tmp_path: Path) -> None:
    experiment, out = resolve("popularity"), tmp_path / "one"
    result = run(experiment, out)
    with only_process(out):
        assert RunFolder(out).record() == result
        assert run(experiment, out, resume=True) == result


def test_items_join_one_after_another(tmp_path: Path) -> None:
    out, new = tmp_path / "one", tmp_path / "new.csv"
    run(resolve("pfedrec", plugins=["ridge"], rounds=1), out)
    new.write_text("item_id,title\nx,Quiet Harbour\n")
    with only_process(out), pytest.raises(TacitError, match="Another process is running in"):
        add_items(out, new)
    assert add_items(out, new).version == 1
    assert not (out / LOCK).exists()


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), only_process(tmp_path):
        raise RuntimeError("anything")
    with only_process(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert list(tmp_path.iterdir()) == []


EXPERIMENT = resolve("fedmf", rounds=2)
LEFT = {
    "nothing": {},
    "a lock": {LOCK: b""},
    "a part": {"experiment.toml.part": b"name = "},
    "both": {LOCK: b"", "experiment.toml.part": b""},
    "an empty file": {"experiment.toml": b""},
    "half a file": {"experiment.toml": dumps(EXPERIMENT).encode()[:40], LOCK: b""},
}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("resume", [False, True])
def test_a_kill_before_the_first_file_is_whole(left: str, resume: bool, tmp_path: Path) -> None:
    out = tmp_path / "one"
    out.mkdir()
    for name, content in LEFT[left].items():
        (out / name).write_bytes(content)
    result = run(EXPERIMENT, out, resume=resume)
    assert result.rounds_run == 2
    assert RunFolder(out).experiment() == EXPERIMENT
    assert not list(out.rglob("*.part"))
    assert not (out / LOCK).exists()


@pytest.mark.parametrize("content", ["mine = true\n", dumps(EXPERIMENT)[:40] + "x", "# notes"])
def test_a_file_of_somebody_else_is_not_overwritten(content: str, tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(content)
    for resume in (False, True):
        with pytest.raises(TacitError, match=r"experiment\.toml' is damaged: "):
            run(EXPERIMENT, tmp_path, resume=resume)
    assert (tmp_path / "experiment.toml").read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.toml"]


def test_a_kill_between_the_first_files(tmp_path: Path) -> None:
    out = tmp_path / "one"
    result = run(EXPERIMENT, tmp_path / "whole")
    RunFolder(out).open(EXPERIMENT, resume=False)
    (out / "data").mkdir()
    (out / "data" / "users.parquet").write_bytes(b"PAR1")  # and no digest.json yet
    (out / "data" / "items.parquet.part").write_bytes(b"PAR1")
    again = run(EXPERIMENT, out, resume=True)
    assert again.metrics == result.metrics
    assert not list(out.rglob("*.part"))


def test_resume_without_out_begins_where_a_kill_left_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.cli.settings import folder_to_resume, new_folder

    monkeypatch.chdir(tmp_path)
    left = new_folder(EXPERIMENT)
    left.mkdir(parents=True)
    (left / "experiment.toml.part").touch()
    assert folder_to_resume(EXPERIMENT) == left
    run(EXPERIMENT, new_folder(EXPERIMENT))
    assert folder_to_resume(EXPERIMENT) == new_folder(EXPERIMENT).with_name(left.name + "-2")
