"""Help, version, the list, and how quickly the command starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMANDS = ["demo", "train", "evaluate", "recommend", "compare", "data", "list", "doctor", "bench"]
COMMANDS += ["audit", "sweep", "analyse", "encode"]


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
    from tacit.experiment.plugins import PLUGINS
    from tacit.methods import METHODS

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
