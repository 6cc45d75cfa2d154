"""The page on content names every encoder, and its Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.content.encoders import ENCODERS

PAGE = (Path(__file__).parents[2] / "docs" / "content.md").read_text("utf-8")


def test_every_encoder_is_named() -> None:
    named = re.findall(r"^\| `(\w+)", PAGE.split("## Encoders")[1].split("\n## ")[0], re.MULTILINE)
    assert sorted(named) == sorted(ENCODERS)


def test_its_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("item_id,title\na,Alien\nb,\n")
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    exec(code.group(1), {})
    assert capsys.readouterr().out == "1 1\n"
