"""The example draws items, adds them and finds people who like them."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_items.py"


def test_a_hundred_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "version 1: 100 new items, 0 without content"
    assert [int(line.split()[0]) for line in lines[1:11]] == list(range(1, 11))
    assert any(line.split()[1] == "new" for line in lines[1:11])
    seconds = re.search(r"([\d.]+) CPU seconds", out)
    assert seconds is not None
    assert float(seconds.group(1)) < 10
    share = re.search(r"likes most: (\d+)%", out)
    assert share is not None
    assert int(share.group(1)) > 50
    assert list(tmp_path.iterdir()) == []
