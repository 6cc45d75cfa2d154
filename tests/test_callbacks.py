"""Callbacks: what they hear, in which order, and the examples that use them."""

from __future__ import annotations

import json
import runpy
import sys
import types
from pathlib import Path

import pytest

import tacit

EXAMPLES = Path(__file__).parents[1] / "examples"


class Listener(tacit.Callback):
    def __init__(self) -> None:
        self.heard: list[tuple] = []

    def begin(self, experiment, rounds, engine):
        self.heard.append(("begin", experiment.name, rounds))

    def validation(self, found):
        self.heard.append(("validation", found.round, found.improved))

    def round(self, number, loss):
        self.heard.append(("round", number, loss is not None))

    def end(self, record):
        self.heard.append(("end", record is not None))


def test_all_is_heard_in_order():
    one, other = Listener(), Listener()
    model = tacit.fit(
        "planted", "fedmf", rounds=3, sets=["evaluate_every=2"], callbacks=[one, other]
    )
    events = [heard[0] for heard in one.heard]
    assert events == ["begin", "round", "validation", "round", "validation", "round", "end"]
    assert one.heard[0] == ("begin", "fedmf", 3)
    assert one.heard[2] == ("validation", 2, True)
    assert one.heard[-1] == ("end", True)
    assert one.heard == other.heard
    assert model.record.selected_round in (2, 3)


def test_the_end_is_heard_whatever_happens(tmp_path):
    class Stop(Listener):
        def validation(self, found):
            raise LookupError("not promising")

    stop = Stop()
    with pytest.raises(LookupError):
        tacit.fit("planted", "fedmf", rounds=3, callbacks=stop)
    assert stop.heard == [("begin", "fedmf", 3), ("end", False)]


def test_validation_is_what_the_run_writes(tmp_path):
    class Values(tacit.Callback):
        def __init__(self):
            self.found = []

        def validation(self, found):
            self.found.append(found)

    values = Values()
    tacit.fit("planted", "fedmf", rounds=4, out=tmp_path / "one", callbacks=values)
    text = (tmp_path / "one" / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["valid"] for line in lines] == [found.metrics for found in values.found]
    last = values.found[-1]
    assert last.best == max(found.value for found in values.found)
    assert last.value == last.metrics["full"][last.metric]


# The examples run on stand-ins: neither TensorBoard nor Optuna is a dependency.


def test_the_tensorboard_example(monkeypatch, capsys, tmp_path):
    scalars: dict[str, list[int]] = {}

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_text(self, name, text):
            assert "fedmf" in text

        def add_scalar(self, name, value, step):
            scalars.setdefault(name, []).append(step)

        def close(self):
            scalars["closed"] = []

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(sys, "argv", ["tensorboard_log.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "tensorboard_log.py"), run_name="__main__")
    assert scalars["loss"] == scalars["validation full/HR@10"] == list(range(1, 21))
    assert "closed" in scalars
    assert "Model(fedmf on planted" in capsys.readouterr().out


def test_the_optuna_example(monkeypatch, capsys):
    class TrialPruned(Exception):  # noqa: N818
        pass

    class Trial:
        def __init__(self, rate, patience):
            self.rate, self.patience, self.reported = rate, patience, []

        def suggest_float(self, name, low, high, log):
            assert low < self.rate < high
            return self.rate

        def report(self, value, step):
            self.reported.append((step, value))

        def should_prune(self):
            return len(self.reported) >= self.patience

    class Study:
        def optimize(self, objective, n_trials):
            good, bad = Trial(0.1, 99), Trial(1.0, 2)
            self.best_value, self.best_params = objective(good), {"rate": 0.1}
            with pytest.raises(TrialPruned):
                objective(bad)
            assert [step for step, _ in bad.reported] == [1, 2]
            assert self.best_value == max(value for _, value in good.reported)

    module = types.ModuleType("optuna")
    module.Trial, module.TrialPruned = Trial, TrialPruned
    module.create_study = lambda direction: Study()
    monkeypatch.setitem(sys.modules, "optuna", module)
    monkeypatch.setattr(sys, "argv", ["optuna_search.py", "2"])
    runpy.run_path(str(EXAMPLES / "optuna_search.py"), run_name="__main__")
    assert "{'rate': 0.1}" in capsys.readouterr().out
