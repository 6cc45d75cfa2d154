"""Progress goes to stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import importlib.util
import sys

import numba
import pytest
from numba.core import event

from tacit.cli import progress
from tacit.experiment.callbacks import Validation
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run

FOUND = Validation(2, "NDCG@10", 0.25, 0.25, 2, {"full": {"NDCG@10": 0.25}})


def play() -> progress.Bar:
    experiment = resolve("fedmf", rounds=4, seed=3)
    bar = progress.Bar()
    bar.begin(experiment, 4, "fused")
    bar.validation(FOUND)
    bar.round(2, 0.5)
    return bar


def test_short_runs_say_nothing(capsys):
    play().end(None)
    assert capsys.readouterr() == ("", "")


def test_long_runs_say_a_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", -1.0)
    play().end(None)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "fedmf, seed 3: round 2/4 loss 0.5000  NDCG@10 0.2500  best 0.2500\n"


@pytest.mark.parametrize(
    ("arguments", "selected_by"),
    [
        (
            {"method": "pfedrec", "plugins": ["ridge"], "sets": ["backbone.dim=4"]},
            "Recall@20+50+100",
        ),
        ({"method": "fedmf", "sets": ["protocol.select_metric=HR@15+30"]}, "HR@15+30"),
        ({"method": "fedmf", "sets": ["protocol.select_metric=MRR@7"]}, "MRR@7"),
        ({"method": "ease"}, "NDCG@10"),
        ({"method": "pfedrec", "protocol": "paper"}, "HR@10"),
    ],
)
def test_what_selects_is_shown(capsys, monkeypatch, tmp_path, arguments, selected_by):
    """The lines of real runs."""
    monkeypatch.setattr(progress, "LINE_SECONDS", -1.0)
    run(resolve(**arguments, rounds=1), tmp_path / "one", callbacks=progress.Bar())
    said = capsys.readouterr().err
    assert f" {selected_by} 0." in said
    assert " best 0." in said


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = play()
    assert bar.progress is not None
    (task,) = bar.progress.tasks
    assert (task.completed, task.total) == (2, 4)
    bar.end(None)
    assert bar.progress is None
    assert capsys.readouterr().out == ""


@pytest.fixture
def unheard(monkeypatch):
    """As in a new process: nobody listens to the compiler yet."""
    before = progress._told
    for listener in before:  # of a command that another test ran
        event.unregister("numba:compile", listener)
    monkeypatch.setattr(progress, "_told", [])
    yield
    for listener in progress._told:
        event.unregister("numba:compile", listener)
    for listener in before:
        event.register("numba:compile", listener)


def kernel(folder, name):
    """A function of a file of its own that calls another one; both are cached beside it."""
    path = folder / "few_kernels.py"
    path.write_text(
        "import numba\n\n\n@numba.njit(cache=True)\ndef inner(x):\n    return x + 1\n\n\n"
        "@numba.njit(cache=True)\ndef outer(x):\n    return inner(x) + inner(x)\n"
    )
    found = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.outer


def test_a_word_while_kernels_compile_and_none_when_they_are_loaded(unheard, capsys, tmp_path):
    progress.tell_of_compiling()
    progress.tell_of_compiling()  # a second command in the process: still one word
    assert kernel(tmp_path, "few_kernels")(1) == 4
    assert capsys.readouterr() == ("", progress.COMPILING + "\n")
    assert kernel(tmp_path, "few_kernels")(1) == 4  # as in the next process: from the cache
    assert capsys.readouterr() == ("", "")


def test_compilations_right_after_each_other_are_one_word(unheard, capsys, monkeypatch):
    progress.tell_of_compiling()
    for number in range(2):
        numba.njit(lambda x, number=number: x + number)(1)
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    numba.njit(lambda x: x + 7)(1)
    assert capsys.readouterr().err == progress.COMPILING + "\n"


@pytest.mark.parametrize("command", [("train", "popularity"), ("recommend", "one", "--user", "x")])
def test_commands_that_compute_listen_to_the_compiler(unheard, tacit, small, capsys, command):
    tacit(*command, *(small if command[0] == "train" else ()))
    numba.njit(lambda x: x - 1)(1)
    assert progress.COMPILING in capsys.readouterr().err


def test_commands_that_only_list_do_not_load_the_compiler(unheard, tacit):
    assert tacit("list").code == 0
    assert progress._told == []
