"""The example with a third modality runs."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_modality.py"


def test_sound_is_just_another_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "3"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    found = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in found] == ["text+image", "text+image+audio", "audio"]
