"""Ctrl-C in the middle of a run, and the same numbers after resuming."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 60


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_ctrl_c_then_resume(tacit, small):
    command = ["train", "fedncf", *small, "--rounds", "60", "--out", "one"]
    # first, so that the other process finds its kernels compiled and has all its seconds to train
    alone = json.loads(tacit(*command[:-1], "alone", "--json").out)
    program = "from tacit.cli.main import run; run()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines, deadline = Path("one", "metrics.jsonl"), time.monotonic() + SECONDS
    while not (lines.is_file() and lines.read_text().count("\n") >= 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("tacit: Stopped after round ")
    assert "continue with --resume --out one" in err
    done = len(lines.read_text().splitlines())
    assert 3 <= done < 60
    assert not Path("one", "run.json").exists()

    resumed = json.loads(tacit(*command, "--resume", "--json").out)
    assert resumed["rounds_run"] == 60
    for key in ("metrics", "reference", "breakdown", "beyond", "selected_round", "cost"):
        assert resumed[key] == alone[key], key
    assert lines.read_text() == Path("alone", "metrics.jsonl").read_text()
