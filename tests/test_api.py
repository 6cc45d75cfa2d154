"""The public names of `tacit`."""

from __future__ import annotations

import ast
import inspect
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tacit


@pytest.mark.parametrize("name", tacit.__all__)
def test_every_public_name_is_there(name):
    assert getattr(tacit, name) is not None
    assert name in dir(tacit)


def test_what_editors_see_is_what_is_imported():
    """The imports for type checkers and the dictionary must name the same things and places."""
    tree = ast.parse(inspect.getsource(tacit))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: f"{node.module}:{alias.name}" if alias.asname else node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == tacit.WHERE
    assert sorted(tacit.__all__) == sorted([*tacit.WHERE, "TacitError"])


def test_the_version_is_that_of_the_package():
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert tacit.__version__ == tomllib.loads(project.read_text())["project"]["version"]


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'fedmff'"):
        _ = tacit.fedmff


def test_import_is_light():
    program = (
        "import sys, tacit; print([n for n in ('torch', 'numba', 'numpy') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_first_run_example(tmp_path, monkeypatch, capsys):
    example = Path(__file__).parents[1] / "examples" / "first_run.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    hits = {row[0]: float(row[2]) for row in rows if "HR@10" in row}
    assert hits["fedmf"] > hits["popularity"] > hits["chance"]
