"""Figures in the README are those in the files that commands wrote, and its code runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_honest_table_is_the_one_that_was_written() -> None:
    written = (ROOT / "docs" / "results" / "honest-table.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- honest-table -->\n(.*?)<!-- /honest-table -->", README, re.DOTALL)
    assert shown is not None
    assert shown.group(1).strip() == written[written.index("**Protocol") :].strip()


def test_the_timings_are_those_that_were_written() -> None:
    written = (ROOT / "docs" / "results" / "bench.txt").read_text(encoding="utf-8")
    shown = re.search(r"<!-- bench -->\n```\n(.*?)```\n<!-- /bench -->", README, re.DOTALL)
    assert shown is not None
    assert shown.group(1) == written


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    for code in (example.group(1), (ROOT / "examples" / "first_run.py").read_text()):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "HR@10" in done.stdout
        assert "chance" in done.stdout


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
