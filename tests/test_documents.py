"""The documents run: every Python line of the README and of docs/, and every command is real.

Blocks of a page share a namespace and a working folder, as the cells of a notebook do. The folder
has the files that pages speak of: a table of plays, items with titles, new items, a finished run.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest
import typer

import tacit
from tacit.cli.main import app
from tacit.core.method import Method
from tacit.core.registry import PARTS
from tacit.methods.entry import METHODS
from tacit.plugins.entry import PLUGINS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# This page quotes a definition, which is compared with the source instead of being run.
QUOTED = "docs/architecture.md"
# This page begins with a file of one's own: it is written down and imported, in a process of its
# own, since what it registers stays.
EXTENDING = "docs/extend.md"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


WITH_PYTHON = [page for page in PAGES if blocks(page) and name_of(page) not in (QUOTED, EXTENDING)]


@pytest.fixture(scope="session")
def desk(tmp_path_factory) -> Path:
    """A folder with the files that the pages speak of."""
    place = tmp_path_factory.mktemp("desk")
    dataset = tacit.load_data("planted")
    rows = dataset.interactions
    plays = {"client": rows.user_N, "song": rows.item_N, "played_at": rows.time_N}
    pl.DataFrame(plays).write_csv(place / "plays.csv")
    items = pl.DataFrame({"item_id": rows.items, "title": dataset.texts["title"]})
    items.write_csv(place / "items.csv")
    pl.DataFrame({"item_id": ["x"], "title": ["Quiet Harbour"]}).write_csv(place / "new.csv")
    (place / "pictures").mkdir()
    plugin = "ridge:modalities=text"
    tacit.run(tacit.resolve("pfedrec", plugins=[plugin], rounds=1), place / "runs" / "one")
    return place


@pytest.fixture
def forgets() -> Iterator[None]:
    """What a page registers is gone after it: later tests in this process ask for all names."""
    before = [(names, set(names)) for names in (PARTS, METHODS, PLUGINS)]
    yield
    for names, known in before:
        for name in set(names) - known:
            del names[name]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_of_a_page_runs(page: Path, desk: Path, forgets, monkeypatch, capsys) -> None:
    monkeypatch.chdir(desk)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for code in blocks(page):
        exec(compile(code, name_of(page), "exec"), namespace)


def test_python_of_the_page_on_python_runs_twice(desk: Path, monkeypatch, capsys) -> None:
    """As a notebook does when all cells are run again: nothing is refused."""
    monkeypatch.chdir(desk)
    namespace: dict[str, object] = {"__name__": "__main__"}
    said = []
    for _ in range(2):
        for code in blocks(ROOT / "docs" / "python.md"):
            exec(compile(code, "docs/python.md", "exec"), namespace)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "did you mean 'pfedrec'?" in said[0]


def test_python_of_the_page_on_extensions_runs(tmp_path: Path) -> None:
    first, *more = blocks(ROOT / EXTENDING)
    (tmp_path / "mine.py").write_text(first, encoding="utf-8")
    program = "\n".join(["import mine", *more])
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_quoted_definition_is_the_source() -> None:
    (code,) = blocks(ROOT / QUOTED)
    (definition,) = ast.parse(code).body
    assert isinstance(definition, ast.ClassDef)
    named = [node.target.id for node in definition.body if isinstance(node, ast.AnnAssign)]
    assert named == [field.name for field in fields(Method)]


# Commands: every `tacit COMMAND --flag` of a page is one that the command line has.


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command in a page, in blocks and between back-ticks."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^(?: {4}|\t).*?\btacit ([a-z].*)$", text, re.M)
    lines += re.findall(r"`(?:\.venv/bin/)?tacit ([a-z][^`]*)`", text)
    for line in lines:
        yield shlex.split(line.split("   #")[0].split(" && ")[0], comments=True)


def known_options() -> dict[tuple[str, ...], set[str]]:
    found: dict[tuple[str, ...], set[str]] = {}

    def walk(command, path: tuple[str, ...]) -> None:
        spelled = [name for one in command.params for name in (*one.opts, *one.secondary_opts)]
        found[path] = {name for name in spelled if name.startswith("-")} | {"-h", "--help"}
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, name))
        if unless_said := getattr(command, "unless_said", None):
            found[path] |= found[(*path, unless_said)]

    walk(typer.main.get_command(app), ())
    return found


OPTIONS = known_options()


def unknown(words: list[str]) -> list[str]:
    """What of a command does not exist: its name, or a flag of it."""
    path = tuple(words[:2]) if tuple(words[:2]) in OPTIONS else tuple(words[:1])
    if path not in OPTIONS:
        return [" ".join(path)]
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return sorted(given - OPTIONS[path])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_a_page_exist(page: Path) -> None:
    for words in commands(page):
        assert unknown(words) == [], " ".join(words)


SPREAD = re.compile(r"(\d+\.(\d+)) ± (\d+\.(\d+))")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_beside_a_table_are_in_it(page: Path) -> None:
    """`x ± y` in a paragraph that links results is there, rounded: another spread is seen."""
    for paragraph in re.split(r"\n\s*\n|\n(?=- )", page.read_text(encoding="utf-8")):
        linked = dict.fromkeys(re.findall(r"\(\S*results/([\w-]+\.md)\)", paragraph))
        texts = [(ROOT / "docs" / "results" / name).read_text(encoding="utf-8") for name in linked]
        there = [(float(x), float(y)) for x, _, y, _ in SPREAD.findall(" ".join(texts))]
        for x, decimals, y, others in SPREAD.findall(paragraph) if linked else []:
            assert any(
                abs(a - float(x)) <= 0.5 * 10.0 ** -len(decimals) + 0.0051
                and abs(b - float(y)) <= 0.5 * 10.0 ** -len(others) + 0.0051
                for a, b in there
            ), f"{x} ± {y} is in none of {list(linked)}"


def test_commands_are_found_and_wrong_ones_are_seen() -> None:
    found = [words for page in PAGES for words in commands(page)]
    assert len(found) > 30
    assert {words[0] for words in found} >= {"train", "compare", "list", "data", "recommend"}
    assert unknown(["train", "pfedrec", "--data", "x", "--round", "3"]) == ["--round"]
    assert unknown(["trian"]) == ["trian"]
    assert unknown(["data", "describe", "x", "--core", "5"]) == []
