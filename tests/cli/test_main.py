"""Help, version, the list, and how quickly the command starts."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import fields
from importlib import metadata
from importlib.metadata import EntryPoint

import pytest
import typer

from tacit.cli import listing
from tacit.cli.main import app
from tacit.cli.settings import ExperimentFlags

COMMANDS = ["demo", "train", "evaluate", "recommend", "compare", "data", "list", "doctor"]
COMMANDS += ["audit", "sweep", "analyse", "encode", "privacy"]


def test_no_arguments_is_help(tacit):
    said = tacit()
    assert said.code == 0
    assert said.err == ""
    for command in COMMANDS:
        assert command in said.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(tacit, command):
    said = tacit(command, "--help")
    assert said.code == 0
    assert "Usage: tacit " + command in said.out


def test_version(tacit):
    assert tacit("--version").out.strip() == "0.1.0"


def test_list_names_everything(tacit):
    from tacit.data.protocol import PROTOCOLS
    from tacit.data.sources import SOURCES
    from tacit.evaluation.metrics import METRICS
    from tacit.methods import METHODS
    from tacit.plugins.entry import PLUGINS

    said = tacit("list")
    assert said.code == 0
    for name in (*METHODS, *PLUGINS, *PROTOCOLS, *SOURCES, *METRICS, "planted", "released"):
        assert name in said.out


def test_starting_needs_no_torch():
    """Help and mistakes in flags must be quick: heavy imports belong inside the commands."""
    program = (
        "import sys; from tacit.cli.main import main; main(['--help']); main(['train', '--nope']); "
        "print([n for n in ('torch', 'numba', 'polars', 'numpy', 'scipy') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_console_script_prints_one_line_and_exits_2():
    program = "import sys; sys.argv = ['tacit', 'trian']; from tacit.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tacit: No such command 'trian'. Did you mean 'train'?\n"


def test_doctor(tacit):
    said = tacit("doctor")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "OK"
    assert "loop, cohort and fused differ by" in said.out


def test_doctor_fails_where_engines_disagree(tacit, monkeypatch):
    monkeypatch.setattr("tacit.cli.doctor.engines_disagree_by", lambda: 1e-3)
    said = tacit("doctor")
    assert said.code == 1
    assert "THEY DISAGREE" in said.out


# What a command imports, and how the list is kept.

HEAVY = ("torch", "numba", "matplotlib", "scipy", "polars", "numpy")


def imported(*arguments: str) -> list[str]:
    """The heavy libraries that a command has imported in a process of its own."""
    program = (
        "import sys; from tacit.cli.main import main; code = main(sys.argv[1:]); "
        f"print([n for n in {HEAVY} if n in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return ast.literal_eval(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_short_and_long_help(tacit, flag):
    assert "Usage: tacit train" in tacit("train", flag).out
    assert "Usage: tacit data describe" in tacit("data", "describe", flag).out


def test_a_kept_list_needs_no_torch(tacit, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    assert tacit("list").code == 0
    assert imported("list") == []
    assert imported("list", "metrics", "--json") == []


def test_training_draws_its_report_without_matplotlib(tmp_path):
    arguments = ("train", "fedmf", "--rounds", "2", "--out", str(tmp_path / "one"))
    found = imported(*arguments)
    assert "torch" in found
    assert "matplotlib" not in found
    assert "<svg" in (tmp_path / "one" / "report.html").read_text(encoding="utf-8")


def test_the_list_is_made_anew_when_a_source_changes(tacit, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    first = tacit("list")
    (kept,) = (tmp_path / "cache").glob("list-*.json")
    kept.write_text(kept.read_text().replace("pfedrec", "pfedold"))
    assert "pfedold" in tacit("list").out  # it is read, while all sources are the same
    monkeypatch.setattr(listing, "sources_digest", lambda: "of another source")
    assert tacit("list") == first
    assert [path.name for path in (tmp_path / "cache").glob("list-*.json")] == [
        "list-of another source.json"
    ]
    kept.with_name("list-of another source.json").write_text("{")  # damaged
    assert tacit("list") == first


def test_the_list_is_never_kept_with_extensions(tacit, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    found = EntryPoint("mine", "my_package", "tacit.methods")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [found] * (group == found.group))
    assert tacit("list").code == 0
    assert not (tmp_path / "cache").exists()


def test_the_list_works_where_nothing_can_be_kept(tacit, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "file"))
    assert "pfedrec" in tacit("list").out


@pytest.mark.parametrize("kind", list(listing.Listed))
def test_one_kind_alone(tacit, kind):
    found = json.loads(tacit("list", kind, "--json").out)
    assert list(found) == [kind]
    assert all(row["name"] for row in found[kind])
    shown = tacit("list", kind).out
    assert all(row["name"] in shown for row in found[kind])


def test_all_of_the_list_as_json(tacit):
    found = json.loads(tacit("list", "--json").out)
    assert list(found) == list(listing.Listed)
    one = next(row for row in found["methods"] if row["name"] == "pfedrec")
    assert (one["protocol"], one["rounds"]) == ("pfedrec", 100)
    assert "released" in one["presets"]


def test_a_kind_that_is_none(tacit):
    said = tacit("list", "method")
    assert said.code == 2
    assert "'methods'" in said.err


def test_shells_complete_commands_and_flags():
    def completed(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        done = subprocess.run(
            [sys.executable, "-m", "tacit.cli.main"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **line, "_TACIT_COMPLETE": "complete_bash"},
        )
        return done.stdout.split()

    assert completed("tacit", "tr") == ["train"]
    assert "--rounds" in completed("tacit", "train", "--ro")
    assert completed("tacit", "list", "me") == ["methods", "metrics"]


def test_shared_flags_are_the_same_in_every_command():
    """One definition: the same name, kind and help wherever a flag of an experiment is taken."""
    command = typer.main.get_command(app)
    names = {field.name for field in fields(ExperimentFlags)}
    for one in ("train", "compare", "sweep", "audit"):
        taking = command.commands[one]
        taking = taking.commands["leaks"] if one == "audit" else taking
        found = {param.name: param for param in taking.params}
        assert names <= set(found), one
        for name in names - ({"protocol", "rounds"} if one == "audit" else set()):
            expected = {param.name: param for param in command.commands["train"].params}[name]
            assert found[name].opts == expected.opts
            assert found[name].help == expected.help
