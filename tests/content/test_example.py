"""The example draws, encodes and reads back."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "encode_items.py"


def test_a_few_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "120"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "text   ngrams: 120 of 120 items, 0 without, 0 damaged"
    assert lines[1] == "image  colours: 113 of 120 items, 6 without, 1 damaged"
    shares = [int(share) for share in re.findall(r"kind: (\d+)%", out)]
    assert shares[0] > 40
    assert shares[1] > 90
    assert list(tmp_path.iterdir()) == []
