"""A run that is killed at any moment and resumed ends with the numbers of one left alone."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tacit.cli.main import main
from tacit.experiment.callbacks import Callback
from tacit.experiment.resolve import resolve
from tacit.experiment.run import RunInterruptedError, run

CODE = "import sys, tacit.cli.main as m; sys.exit(m.main(sys.argv[1:]))"
FLAGS = "--data planted --participation 0.6 --checkpoint-seconds 0.1"
PFEDREC = f"train pfedrec {FLAGS}"
# a closed form has as many rounds as its grid has points
HALF_LIVES = [1 + place / 10 for place in range(1500)]
FEDNEXT = f"train fednext {FLAGS} --preset ridge --set half_lives={HALF_LIVES}".replace(", ", ",")
MEASURED_TIME = ("seconds", "cpu_seconds", "threads", "run", "engine")


def _arguments(command: str, out: Path, rounds: int, threads: int) -> list[str]:
    numbers = ["--rounds", str(rounds), "--threads", str(threads)]
    return [*command.split(), *numbers, "--out", str(out)]


def _start(command: str, out: Path, rounds: int, threads: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *_arguments(command, out, rounds, threads), "--resume"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _numbers(out: Path) -> dict:
    result = json.loads((out / "run.json").read_text())
    return {key: value for key, value in result.items() if key not in MEASURED_TIME}


def _rounds_written(out: Path) -> int:
    metrics = out / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def _left_alone(folder: Path, kills: int, command: str = PFEDREC, per_kill: int = 80) -> Path:
    """The same run, which nobody kills; it is so long that another outlasts its kills."""
    alone = folder / "alone"
    assert main(_arguments(command, alone, 100 + per_kill * kills, 1)) == 0
    return alone


def _kill_and_resume(
    tmp_path: Path, alone: Path, kills: int, command: str = PFEDREC, last_with: str = ""
) -> None:
    """`last_with` are flags of the last killed run and of what goes on: they change no number."""
    killed, rounds = tmp_path / "killed", json.loads((alone / "run.json").read_text())["rounds_run"]
    chooser = random.Random(0)
    for number in range(kills):
        if number == kills - 1:
            command = f"{command} {last_with}"
        process = _start(command, killed, rounds, 1 + number % 2)
        already = _rounds_written(killed)
        # training is under way once a new line stands in the metrics; then any moment may come
        deadline = time.monotonic() + 120
        while _rounds_written(killed) <= already and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(chooser.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    assert not (killed / "run.json").exists(), "the run ended before the kills did: make it longer"
    assert main([*_arguments(command, killed, rounds, 2), "--resume"]) == 0
    assert _numbers(killed) == _numbers(alone)
    for name in ("metrics.jsonl", "ranks.parquet"):
        assert (killed / name).read_bytes() == (alone / name).read_bytes(), name
    left, expected = ({one.name for one in folder.iterdir()} for folder in (killed, alone))
    assert left - {"checkpoint"} == expected - {"checkpoint"}


def test_stopped_in_memory_and_gone_on_with_private_rows_on_disk(tmp_path: Path) -> None:
    """In one process: the rows that devices keep change their place, and no number changes."""
    experiment = resolve("pfedrec", rounds=4, sets=["participation.ratio=0.6"])

    class Stop(Callback):
        def round(self, number: int, loss: float | None) -> None:
            if number == 2:
                raise RunInterruptedError("enough")

    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    run(experiment, alone)
    with pytest.raises(RunInterruptedError):
        run(experiment, stopped, callbacks=[Stop()], checkpoint_seconds=0)
    run(experiment, stopped, resume=True, private_on_disk=True)
    assert _numbers(stopped) == _numbers(alone)
    assert (stopped / "ranks.parquet").read_bytes() == (alone / "ranks.parquet").read_bytes()


@pytest.mark.slow
def test_killed_in_memory_and_then_with_private_rows_on_disk(tmp_path: Path) -> None:
    alone = _left_alone(tmp_path, 2)
    _kill_and_resume(tmp_path, alone, kills=2, last_with="--private-on-disk")


@pytest.mark.slow
def test_killed_ten_times(tmp_path: Path) -> None:
    _kill_and_resume(tmp_path, _left_alone(tmp_path, 10), kills=10)


@pytest.mark.slow
def test_a_closed_form_killed_five_times(tmp_path: Path) -> None:
    alone = _left_alone(tmp_path, 5, FEDNEXT, per_kill=250)  # a round takes two milliseconds
    _kill_and_resume(tmp_path, alone, kills=5, command=FEDNEXT)
