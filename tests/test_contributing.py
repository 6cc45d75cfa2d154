"""CONTRIBUTING.md says that a method takes one new file and one line: do exactly that."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tacit.compiled import cache_folder

ROOT = Path(__file__).parents[1]


def test_a_toy_method_takes_one_file_and_one_line(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    method_file, line = blocks[0], blocks[1]
    assert line.strip().count("\n") == 0

    package = tmp_path / "tacit"
    shutil.copytree(
        ROOT / "src" / "tacit", package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    (package / "methods" / "tuned_mf.py").write_text(method_file, encoding="utf-8")
    listed = package / "core" / "registry.py"
    before, mark, after = listed.read_text(encoding="utf-8").partition("METHOD_MODULES = {\n")
    listed.write_text(before + mark + line + after, encoding="utf-8")

    # the copy is imported because it comes first on the path; its kernels are those of the
    # original, whose code is the same, and what else is compiled stays in tmp_path
    kernels = tmp_path / "cache-kernels"
    kernels.mkdir(mode=0o700)
    for kept in (cache_folder() or kernels).glob("tacit.*"):
        (kernels / kept.name).symlink_to(kept)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "TACIT_CACHE": str(tmp_path / "cache"),
    }
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
