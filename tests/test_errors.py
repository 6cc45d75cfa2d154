"""Messages: one sentence, in the words of whoever reads it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tacit.errors import argument, flags

SOURCE = Path(__file__).parents[1] / "src" / "tacit"
# What Python calls: messages of the others are read on the command line alone.
CALLED = ("core", "data", "engines", "evaluation", "experiment", "methods", "parts", "study")


def spelled_by_hand(path: Path) -> list[str]:
    """Flags that a message names without asking who reads it, but for those that are flags only."""
    raised = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)]
    texts = [
        node.value
        for one in raised
        for node in ast.walk(one)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    found = [flag for text in texts for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)]
    return [flag for flag in found if flag not in ("--config", "--import")]


@pytest.mark.parametrize("package", CALLED)
def test_messages_ask_how_an_argument_is_written(package):
    found = {
        path.relative_to(SOURCE).as_posix(): flags
        for path in (SOURCE / package).rglob("*.py")
        if (flags := spelled_by_hand(path))
    }
    assert found == {}


def test_a_flag_that_is_spelled_by_hand_is_seen(tmp_path):
    file = tmp_path / "one.py"
    file.write_text("raise ValueError(f'{x}; use --device cpu, or leave out --config.')")
    assert spelled_by_hand(file) == ["--device"]


@pytest.mark.parametrize(
    ("name", "value", "in_python", "on_the_command_line"),
    [
        ("out", None, "out=", "--out"),
        ("min_user", None, "min_user=", "--min-user"),
        ("device", "cpu", "device='cpu'", "--device cpu"),
        ("rounds", 5, "rounds=5", "--rounds 5"),
        ("resume", True, "resume=True", "--resume"),
        ("plugins", "clip", "plugins=['clip']", "--with clip"),
        ("sets", "a.b=1", "sets=['a.b=1']", "--set a.b=1"),
        (
            "columns",
            {"user": "u", "item": "i"},
            "columns={'user': 'u', 'item': 'i'}",
            "--columns user=u,item=i",
        ),
    ],
)
def test_an_argument_in_both_ways(name, value, in_python, on_the_command_line):
    assert argument(name, value) == in_python
    with flags():
        assert argument(name, value) == on_the_command_line
        with flags():
            pass
        assert argument(name, value) == on_the_command_line
    assert argument(name, value) == in_python
