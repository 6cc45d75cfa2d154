"""The example with a third modality runs."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_modality.py"


def test_sound_is_just_another_table() -> None:
    found = subprocess.run(
        [sys.executable, EXAMPLE, "3"], capture_output=True, text=True, timeout=300, check=True
    ).stdout.splitlines()
    assert [line.split()[0] for line in found] == ["text+image", "text+image+audio", "audio"]
