"""Progress goes to stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import types

from tacit.cli import progress
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve

RECORD = {
    "round": 2,
    "loss": 0.5,
    "valid": {"full": {"NDCG@10": 0.25}, "sampled99": {"NDCG@10": 0.75}},
}


def play() -> progress.Bar:
    experiment = resolve("fedmf", rounds=4, seed=3)
    bar = progress.Bar()
    bar.begin(experiment, prepare(experiment), "fused", 4)
    bar.round(RECORD, 0.25)
    return bar


def test_short_runs_say_nothing(capsys):
    play().end()
    assert capsys.readouterr() == ("", "")


def test_long_runs_say_a_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", -1.0)
    play().end()
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "fedmf, seed 3: round 2/4 loss 0.5000  NDCG@10 0.2500  best 0.2500\n"


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = play()
    assert bar.progress is not None
    (task,) = bar.progress.tasks
    assert (task.completed, task.total) == (2, 4)
    bar.end()
    assert bar.progress is None
    assert capsys.readouterr().out == ""


def test_bench_hands_its_lines_on(tacit, monkeypatch):
    def bench(report, *, quick=False):
        report(f"quick is {quick}")
        return {"rounds": 3}

    module = types.SimpleNamespace(bench=bench)
    monkeypatch.setitem(sys.modules, "tacit.benchmarks.bench", module)
    assert tacit("bench", "--quick").out == "quick is True\n"
    said = tacit("bench", "--json")
    assert (said.out, said.err) == ('{\n "rounds": 3\n}\n', "quick is False\n")
