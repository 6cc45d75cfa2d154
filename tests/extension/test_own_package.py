"""A user's own package, file and page of the docs: all in them works like what is built in."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tacit import names
from tacit.cli.main import main
from tacit.errors import TacitError

PACKAGE = Path(__file__).parent / "package"
PAGE = (Path(__file__).parents[2] / "docs" / "extend.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
MINE, BATTERY = (text for kind, text in BLOCKS if kind == "python")
COMMANDS = [line for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]
POINTS, RECORDED, CONFIG = (text for kind, text in BLOCKS if kind == "toml")
OWN = ("shrunk_ncf", "shrink_rows", "mornings")
OUTSIDE = ("own_recommenders", "mine", "broken", "stray")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Tacit = Callable[..., Said]


def forget() -> None:
    """What a new process does not know: modules from outside, and that anybody has looked."""
    for name in [name for name in sys.modules if name.startswith(OUTSIDE)]:
        del sys.modules[name]
    importlib.invalidate_caches()
    names._STATE.installed = None


@pytest.fixture(autouse=True)
def _as_in_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    forget()
    with names.restored():
        yield
    forget()


@pytest.fixture
def tacit(capsys: pytest.CaptureFixture) -> Tacit:
    """Run `tacit ARGUMENTS` as if in a process of its own."""

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        forget()
        with names.restored():
            code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package can be imported, and is not installed."""
    monkeypatch.syspath_prepend(PACKAGE)


Install = Callable[[dict[str, dict[str, str]]], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put metadata with entry points on the path, as an installer writes it."""

    def write(groups: dict[str, dict[str, str]]) -> None:
        folder = tmp_path / "site" / "own_recommenders-0.3.dist-info"
        folder.mkdir(parents=True)
        about = "Metadata-Version: 2.1\nName: own-recommenders\nVersion: 0.3\n"
        (folder / "METADATA").write_text(about)
        text = ""
        for group, points in groups.items():
            text += f"[{group}]\n" + "".join(f"{key} = {where}\n" for key, where in points.items())
        (folder / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(tmp_path / "site")

    return write


@pytest.fixture
def installed(install: Install, on_path: None) -> None:
    """The package is installed, as its own `pyproject.toml` says."""
    install(tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"])


@pytest.fixture
def mine() -> Path:
    """The file of the page, in the current folder."""
    Path("mine.py").write_text(MINE, encoding="utf-8")
    return Path("mine.py")


# The whole way: list, train, resume, recommend, evaluate, compare, audit.


@pytest.mark.parametrize("way", ["on_path", "installed"])
def test_a_package_trains_resumes_recommends_and_is_listed(
    tacit: Tacit, way: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(way)
    imported = way == "on_path"
    flag = ["--import", "own_recommenders"] if imported else []
    listed = tacit("list", *flag)
    assert listed.code == 0
    assert all(name in listed.out for name in (*OWN, "Forty people who read the news"))
    assert "could not be loaded" not in listed.out
    every = tacit("list", "--json", *flag).value
    for name, kind in zip(OWN, ("methods", "plugins", "data"), strict=True):
        assert every[kind][-1]["name"] == name  # after all that is built in
        assert tacit("list", kind, "--json", *flag).value[kind] == every[kind]
    assert "not_loaded" not in every
    assert "mornings" in tacit("data", "list", *flag).out
    described = tacit("data", "describe", "mornings", "--json", *flag).value
    assert (described["name"], described["users"]) == ("mornings", 40)

    train = ["train", "shrunk_ncf", "--data", "mornings", "--json", *flag]
    first = tacit(*train, "--rounds", 2, "--out", "one").value
    assert (first["method"], first["rounds_run"]) == ("shrunk_ncf", 2)
    text = Path("one", "experiment.toml").read_text("utf-8")
    assert text.startswith(RECORDED) == imported
    assert ("imports" in text) == imported
    assert 'part = "shrunk_rows"' in text

    # a folder that is opened later, without any flag
    assert tacit("train", "--resume", "--out", "one", "--json").value == first
    assert len(tacit("recommend", "one", "--user", 7, "--json").value) > 0
    again = tacit("evaluate", "one", "--metrics", "HR@10", "--json").value["metrics"]["full"]
    assert again["HR@10"] == first["metrics"]["full"]["HR@10"]
    plugged = ["--with", "shrink_rows:factor=0.8", "--data", "mornings", *flag]
    two = tacit("train", "fedmf", *plugged, "--rounds", 1, "--out", "two", "--json").value
    assert two["plugins"] == ["shrink_rows:factor=0.8"]
    assert tacit("compare", "one", "two", "--out", "both").code == 0


@pytest.mark.slow
def test_another_process_opens_the_folder_without_a_flag(
    tacit: Tacit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trick of this process: the package is on PYTHONPATH, and the folder says what it needs."""
    with monkeypatch.context() as patch:
        patch.syspath_prepend(PACKAGE)
        flags = ["--import", "own_recommenders", "--data", "mornings", "--rounds", 1]
        assert tacit("train", "shrunk_ncf", *flags, "--out", "one").code == 0
    program = "import sys; from tacit.cli.main import main; sys.exit(main(sys.argv[1:]))"
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", program, "recommend", "one", "--user", "7", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    lost = tacit("recommend", "one", "--user", 7)
    assert (lost.code, lost.out, lost.err.count("\n")) == (2, "", 1)
    assert "made with --import own_recommenders (there is no module 'own_recommenders')" in lost.err


# The page of the docs.


def test_the_file_and_the_commands_of_the_page(tacit: Tacit, mine: Path) -> None:
    assert len(COMMANDS) == 4
    for line in COMMANDS:
        program, *arguments = shlex.split(line)
        assert program == "tacit"
        said = tacit(*arguments)
        assert said.code == 0, said.err
    assert "shrunk_mf" in tacit(*shlex.split(COMMANDS[0])[1:]).out
    for run in ("shrunk", "plugged"):
        text = Path("runs", run, "experiment.toml").read_text("utf-8")
        assert text.startswith('imports = ["mine.py"]\n')


def test_the_file_of_the_guide(tacit: Tacit) -> None:
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    first = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0]
    Path("mine.py").write_text(first, encoding="utf-8")
    said = tacit("train", "tuned_mf", "--import", "mine.py", "--rounds", 1, "--json")
    assert said.value["method"] == "tuned_mf"


def test_the_entry_points_of_the_page_are_those_of_the_package() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert tomllib.loads(POINTS)["project"]["entry-points"] == project["entry-points"]


def test_the_configuration_of_the_page(tacit: Tacit, on_path: None) -> None:
    Path("config.toml").write_text(CONFIG)
    said = tacit("train", "--config", "config.toml", "--dry-run")
    assert said.code == 0, said.err
    assert said.out.startswith(RECORDED + 'name = "shrunk_ncf"\nrounds = 2\n')
    Path("saved.toml").write_text(said.out)
    assert tacit("train", "--config", "saved.toml", "--dry-run").out == said.out
    Path("config.toml").write_text(CONFIG.replace("own_recommenders", "mine.py"))
    assert tacit("train", "--config", "config.toml", "--dry-run") == Said(
        2,
        "",
        "tacit: This experiment was made with --import mine.py (a file is not run because a saved "
        "experiment names it); give that --import again, with the place where the module is now.\n",
    )
    Path("config.toml").write_text("imports = 3\n" + CONFIG.partition("\n")[2])
    assert "imports in 'config.toml' is 3" in tacit("train", "--config", "config.toml").err


def test_the_battery_of_the_page(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = ModuleType("battery")
    exec(compile(BATTERY, "battery", "exec", dont_inherit=True), module.__dict__)
    held = module.TestShrunk()
    plain = [
        test
        for name in dir(held)
        if name.startswith("test_") and not signature(test := getattr(held, name)).parameters
    ]
    assert len(plain) >= 4
    for test in plain:
        test()


# What a folder may run, and what not.

STRAY = "from pathlib import Path\nPath('ran').touch()\n"


def test_a_path_in_a_folder_is_never_followed(tacit: Tacit, mine: Path) -> None:
    mine.write_text(MINE + STRAY, encoding="utf-8")
    train = ["train", "shrunk_mf", "--data", "evenings", "--rounds", 1, "--out", "one"]
    assert tacit(*train, "--import", "mine.py").code == 0
    Path("ran").unlink()
    for command in (["recommend", "one", "--user", 7], ["evaluate", "one"]):
        said = tacit(*command)
        assert said.code == 2
        assert said.err == (
            "tacit: 'one/experiment.toml': This experiment was made with --import mine.py (a file "
            "is not run because a saved experiment names it); give that --import again, with the "
            "place where the module is now.\n"
        )
        assert not Path("ran").exists()
        assert tacit(*command, "--import", mine.absolute()).code == 0
        Path("ran").unlink()
    # another spelling of the same file is the same experiment
    again = tacit(*train, "--import", mine.absolute(), "--resume", "--json")
    assert again.value["rounds_run"] == 1


@pytest.mark.parametrize("named", [False, True])
def test_a_module_of_the_current_folder_is_not_run_unless_the_user_named_the_folder(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.experiment.resolve import resolve
    from tacit.experiment.toml import dumps, loads

    Path("stray.py").write_text(STRAY)
    monkeypatch.syspath_prepend("" if not named else tmp_path)  # as `python -m` does
    if named:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    experiment = resolve("fedmf", rounds=2)
    assert loads('imports = ["stray"]\n' + dumps(experiment)) == experiment
    assert Path("ran").exists() == named


def test_only_what_is_used_is_recorded_and_numbers_have_the_same_digest(on_path: None) -> None:
    from tacit.experiment.resolve import resolve
    from tacit.experiment.toml import document, dumps, loads

    plain = resolve("fedmf", rounds=2)
    text = dumps(plain)
    assert document(plain) == text
    names.extend("own_recommenders")
    assert document(resolve("fedmf", rounds=2)) == text
    own = resolve("shrunk_ncf", data="mornings", rounds=2)
    assert document(own) == RECORDED + dumps(own)
    assert "imports" not in dumps(own)  # of which digests are made
    assert loads(document(own)) == own
    by_data = resolve("fedmf", data="mornings")
    assert document(by_data) == RECORDED + dumps(by_data)


def test_a_module_that_was_imported_before_is_recorded_too(on_path: None) -> None:
    from tacit.experiment.resolve import resolve
    from tacit.experiment.toml import imports_of

    importlib.import_module("own_recommenders")
    own = resolve("shrunk_ncf")
    assert imports_of(own) == []
    names.extend("own_recommenders")
    assert imports_of(own) == ["own_recommenders"]


def test_names_that_are_installed_are_not_recorded_whoever_asks_first(installed: None) -> None:
    from tacit.experiment.resolve import resolve
    from tacit.experiment.toml import imports_of

    Path("mine.py").write_text(MINE + "assert 'shrunk_ncf' in tacit.METHODS\n")
    names.extend("mine.py")
    assert imports_of(resolve("shrunk_ncf", data="mornings")) == []
    assert imports_of(resolve("shrunk_ncf", data="evenings")) == ["mine.py"]


# Extensions that are broken.


def test_a_broken_extension_is_listed_and_breaks_nothing_else(
    tacit: Tacit, install: Install, tmp_path: Path
) -> None:
    install(
        {
            "tacit.methods": {
                "half": "broken_half:ENTRY",
                "fedmf": "broken_clash:ENTRY",
                "lost": "broken_lost:ENTRY",
                "wrong": "broken_wrong:ENTRY",
                "leaves": "broken_leaves",
            }
        }
    )
    entry = "import tacit\nENTRY = tacit.Entry(build=tacit.fedmf, summary='x', rounds=1)\n"
    for name, text in {
        "broken_half": entry + "tacit.METHODS['half'] = ENTRY\nraise ValueError('no licence')\n",
        "broken_clash": entry.replace("build=tacit.fedmf", "build=lambda: None"),
        "broken_wrong": "ENTRY = 3\n",
        "broken_leaves": "import sys\nsys.exit('not today')\n",
    }.items():
        (tmp_path / "site" / f"{name}.py").write_text(text)
    listed = tacit("list")
    assert listed.code == 0
    joined = " ".join(listed.out.split())
    for said in ("broken_half:ENTRY", "broken_clash:ENTRY", "broken_lost:ENTRY", "broken_leaves"):
        assert said in joined
    assert listed.out.index("Extensions that could not be loaded") > listed.out.index("fedmf")
    every = tacit("list", "--json").value
    problems = {one["name"].split("'")[1]: one["problem"] for one in every["not_loaded"]}
    assert problems == {
        "half": "ValueError: no licence",
        "fedmf": "A method named 'fedmf' is there already: fedmf of "
        "tacit.methods.factorisation; choose another name",
        "lost": "there is no module 'broken_lost'",
        "wrong": "The method 'wrong' is 3; give an Entry: tacit.Entry(build=.., summary=.., "
        "rounds=..)",
        "leaves": "SystemExit: not today",
    }
    assert tacit("train", "fedmf", "--rounds", 1, "--dry-run").code == 0
    said = tacit("train", "half")
    assert said.code == 2
    assert said.err.startswith("tacit: Unknown method 'half'; ")
    assert (
        "Not loaded: the entry point 'half' of tacit.methods (broken_half:ENTRY): ValueError: no "
        "licence." in said.err
    )
    assert "Not loaded: " in tacit("train", "fedmf", "--data", "nowhere").err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raise ValueError('out of paper')", "ValueError: out of paper; mend it, or leave out"),
        ("import broken_neighbour", "there is no module 'broken_neighbour'; install it, put its "),
        ("def (", "SyntaxError: "),
        ("import tacit; tacit.SOURCES['planted'] = 3", "A dataset named 'planted' is there alre"),
        ("import tacit; tacit.SOURCES['x'] = 3", "The dataset 'x' is 3; give a function that "),
        ("import tacit; tacit.PLUGINS['x'] = 3", "The plug-in 'x' is 3; give a Plugin: tacit."),
        ("import tacit; tacit.METHODS['a b'] = 3", "'a b' is no name for a method; use letters"),
        ("import tacit; tacit.register('bce', int)", "'int' is no dataclass, so its settings"),
        ("raise SystemExit(3)", "SystemExit: 3; mend it"),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_in_one_sentence(
    text: str, sentence: str, tacit: Tacit
) -> None:
    before = "import tacit\ntacit.SOURCES['half'] = lambda: None\n"
    Path("mine.py").write_text(before + text + "\n")
    said = tacit("train", "fedmf", "--import", "mine.py")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(f"tacit: Cannot import 'mine.py': {sentence}")
    with pytest.raises(TacitError, match=re.escape(sentence)):
        names.extend("mine.py")
    assert not names._STATE.tables["tacit.datasets"].from_import("half")
    assert "half" not in names._STATE.tables["tacit.datasets"]  # nothing stays of it


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise OSError('no disk')", "The function that makes the dataset 'own' failed: OSError"),
        ("return 3", "The function that makes the dataset 'own' returned 3; it must return a "),
        ("raise tacit.TacitError('Get the files.')", "Get the files."),
    ],
)
def test_a_dataset_that_cannot_be_made(body: str, sentence: str, tacit: Tacit) -> None:
    Path("mine.py").write_text(
        f"import tacit\ndef own():\n    {body}\ntacit.SOURCES['own'] = own\n"
    )
    said = tacit("train", "fedmf", "--import", "mine.py", "--data", "own", "--out", "one")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith(f"tacit: {sentence}")
    assert not Path("one").exists()
    for command, refusal in (
        (["data", "get", "own"], "The dataset 'own' is made by a function; nothing is to get."),
        (["data", "describe", "own", "--columns", "user=a"], "The columns of source 'own' are "),
    ):
        assert refusal in tacit(*command, "--import", "mine.py").err


@pytest.mark.parametrize(
    ("lines", "arguments", "sentence"),
    [
        (
            "tacit.METHODS['own'] = tacit.Entry(build=lambda: 3, summary='x', rounds=2)",
            ["own"],
            "The function '<lambda>' of a method returned 3; it must return a method.",
        ),
        (
            "tacit.METHODS['own'] = tacit.Entry(build=lambda: 1 / 0, summary='x', rounds=2)",
            ["own"],
            "The function '<lambda>' of a method failed: ZeroDivisionError: division by zero; mend",
        ),
        (
            "tacit.PLUGINS['own'] = tacit.Plugin(lambda method: None, 'x')",
            ["fedmf", "--with", "own"],
            "The plug-in 'own' returned None; it must return a method.",
        ),
        (
            "tacit.PLUGINS['own'] = tacit.Plugin(lambda method: method.parts, 'x')",
            ["fedmf", "--with", "own"],
            "The plug-in 'own' failed: AttributeError: 'Method' object has no attribute 'parts'",
        ),
    ],
)
def test_a_method_or_a_plug_in_that_cannot_be_made(
    lines: str, arguments: list[str], sentence: str, tacit: Tacit
) -> None:
    Path("mine.py").write_text(f"import tacit\n{lines}\n")
    said = tacit("train", *arguments, "--import", "mine.py", "--out", "one")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith(f"tacit: {sentence}")
    assert not Path("one").exists()


def test_a_source_with_files_and_rules_of_its_own(
    tacit: Tacit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"u{user},i{(user + step) % 9}" for user in range(6) for step in range(4)]
    folder = tmp_path / "data" / "shelf"
    folder.mkdir(parents=True)
    (folder / "reads.csv").write_text("user,item\n" + "\n".join([*lines, "few,i0"]) + "\n")
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    Path("mine.py").write_text(
        "import tacit\nfrom tacit.data.rules import MinUser\n"
        "tacit.SOURCES['shelf'] = tacit.Source('shelf', 'A shelf', 'shelf', (MinUser(2),), 'free',"
        " 'nobody', 'reads.csv', {'users': 6, 'items': 9, 'interactions': 24}, has_time=False,"
        " raw_file='reads.csv', raw_columns={'user': 'user', 'item': 'item'})\n"
    )
    described = tacit("data", "describe", "shelf", "--import", "mine.py", "--json").value
    assert (described["users"], described["interactions"], described["notes"]) == (6, 24, [])
    said = tacit("train", "fedmf", "--data", "shelf", "--import", "mine.py", "--dry-run")
    assert 'order = "random"' in said.out  # what a source without times is split by


def test_a_package_that_was_mended_is_whole_at_the_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.core.registry import PARTS

    package = tmp_path / "broken_once"
    package.mkdir()
    rule = (PACKAGE / "own_recommenders" / "rules.py").read_text("utf-8")
    (package / "rules.py").write_text(rule)
    (package / "__init__.py").write_text("import broken_once.rules\nraise OSError('wet')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TacitError, match="OSError: wet; mend it"):
        names.extend("broken_once")
    assert "shrunk_rows" not in PARTS
    (package / "__init__.py").write_text("import broken_once.rules  # mended\n")
    names.extend("broken_once")
    assert PARTS["shrunk_rows"].__module__ == "broken_once.rules"


# The lists of what is built in.


def test_the_lists_say_what_the_modules_register() -> None:
    from tacit.core.registry import PARTS
    from tacit.methods import METHODS
    from tacit.plugins import PLUGINS

    for table in (PARTS, METHODS, PLUGINS):
        for name, module in table.built_in.items():
            value: Any = table[name]
            assert table._origin(value)[0] == module, name
        assert list(table) == list(table.built_in)  # nobody else has registered any


def test_what_editors_see_of_the_methods_is_what_is_imported() -> None:
    import ast
    import inspect

    from tacit import methods

    (block,) = (node for node in ast.parse(inspect.getsource(methods)).body if type(node) is ast.If)
    seen = {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"tacit.methods.{file}" for name, file in methods.WHERE.items()}
    for name in methods.WHERE:
        assert callable(getattr(methods, name))
    with pytest.raises(AttributeError, match="no attribute 'fedmff'"):
        _ = methods.fedmff


def test_a_cell_of_a_notebook_may_be_run_twice() -> None:
    cell = MINE.replace("from __future__ import annotations\n", "")
    for _ in range(2):
        module = ModuleType("mine_cell")
        sys.modules["mine_cell"] = module
        exec(compile(cell, "cell", "exec", dont_inherit=True), module.__dict__)
    from tacit.experiment.resolve import resolve

    assert resolve("shrunk_mf", data="evenings").method.sync.factor == 0.5  # type: ignore
