"""Processes of a study do not outlive the one that started them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tacit.errors import argument, flags
from tacit.study.runner import process_pool

# the pool's process has begun to work; then its parent is gone without a word
KILLED = """
import os, signal
from tacit.study.runner import process_pool

if __name__ == "__main__":
    print(process_pool(1).submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_speaks_as_the_one_that_started_it() -> None:
    with process_pool(1) as pool:
        assert pool.submit(argument, "split").result() == "split="
    with flags(), process_pool(1) as pool:
        assert pool.submit(argument, "split").result() == "--split"
        assert pool.submit(argument, "split").result() == "--split"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_parent_takes_its_processes_along(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    # processes of the pool write to the same pipe, so it ends when the last of them has
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9
    assert done.stdout.strip().isdigit()
