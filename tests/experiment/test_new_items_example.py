"""The example draws items, adds them and finds people who like them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_items.py"


def test_a_hundred_items(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "version 1: 100 new items, 0 without content"
    assert [int(line.split()[0]) for line in lines[1:11]] == list(range(1, 11))
    assert any(line.split()[1] == "new" for line in lines[1:11])
    seconds = re.search(r"([\d.]+) CPU seconds", done.stdout)
    assert seconds is not None
    assert float(seconds.group(1)) < 10
    share = re.search(r"likes most: (\d+)%", done.stdout)
    assert share is not None
    assert int(share.group(1)) > 50
    assert list(tmp_path.iterdir()) == []
