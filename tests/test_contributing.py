"""CONTRIBUTING.md says that a method takes one new file and one line: do exactly that."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_toy_method_takes_one_file_and_one_line(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    method_file, import_line = blocks[0], blocks[1]
    assert import_line.strip().count("\n") == 0

    package = tmp_path / "tacit"
    shutil.copytree(
        ROOT / "src" / "tacit", package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    (package / "methods" / "tuned_mf.py").write_text(method_file, encoding="utf-8")
    with (package / "methods" / "__init__.py").open("a", encoding="utf-8") as stream:
        stream.write(import_line)

    # the copy is imported because it comes first on the path; its kernels compile into tmp_path
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = "import sys, tacit.cli.main as m; sys.exit(m.main(sys.argv[1:]))"
    command = ["train", "tuned_mf", "--rounds", "2", "--engine", "cohort", "--json", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["method"] == "tuned_mf"
    assert result["metrics"]["full"]["HR@10"] > 0
