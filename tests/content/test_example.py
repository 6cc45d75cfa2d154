"""The example draws, encodes and reads back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "encode_items.py"


def test_a_few_items(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "120"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "text   ngrams: 120 of 120 items, 0 without, 0 damaged"
    assert lines[1] == "image  colours: 113 of 120 items, 6 without, 1 damaged"
    shares = [int(share) for share in re.findall(r"kind: (\d+)%", done.stdout)]
    assert shares[0] > 40
    assert shares[1] > 90
    assert list(tmp_path.iterdir()) == []
