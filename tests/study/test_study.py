"""Many runs as one frame: reuse by digest, the budget, several processes, files, and the docs."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.callbacks import Callback
from tacit.experiment.resolve import resolve
from tacit.experiment.run import RunInterruptedError
from tacit.experiment.spec import Experiment
from tacit.study import Study
from tacit.study import runner as runner_module
from tacit.study import study as study_module
from tacit.study.runner import Runner

DOCS = Path(__file__).parents[2] / "docs" / "study.md"


def few(**changes: Any) -> dict[str, Experiment]:
    options: dict[str, Any] = {"rounds": 3} | changes
    return {"slow": resolve("fedmf", **options), "none": resolve("popularity")}


@dataclass
class Clock(Callback):
    """Stands still, except that a round takes ten seconds; somebody stops at one of them."""

    stop_at: float = float("inf")
    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def round(self, number: int, loss: float | None) -> None:
        self.now += 10.0
        if self.now == self.stop_at:
            raise KeyboardInterrupt


def stamps(folder: Path) -> dict[str, int]:
    return {p.parent.name: p.stat().st_mtime_ns for p in sorted(folder.rglob("run.json"))}


def test_a_row_per_run_with_its_references_and_where_it_lies(tmp_path: Path) -> None:
    study = Study.of(tmp_path, few(), seeds=2).run()
    frame = study.frame(["HR@10"])
    assert frame.select("name", "seed").rows() == [
        ("slow", 0),
        ("slow", 1),
        ("none", 0),
        ("none", 1),
    ]
    for (trial, record), row in zip(study.records, frame.iter_rows(named=True), strict=True):
        assert row["test HR@10 full"] == record.metrics.full["HR@10"]
        assert row["chance HR@10 sampled99"] == record.reference.sampled99.chance["HR@10"]
        assert row["validation NDCG@10"] == record.test_released.validation_value
        assert row["bytes_up"] == record.cost.bytes_up
        assert row["privacy"] == "no guarantee"
        assert row["folder"] == str(trial.folder)
        assert row["folder"].endswith(row["digest"])
    means = frame.group_by("name", maintain_order=True).agg(pl.col("validation NDCG@10").mean())
    assert study.best == {"name": means.sort("validation NDCG@10")["name"][-1]}
    with pytest.raises(TacitError, match=r"has no metric 'HR@11'; did you mean"):
        study.frame(["HR@11"])


def test_finished_runs_are_used_again_and_only_those(tmp_path: Path) -> None:
    Study.of(tmp_path, few()).run()
    before = stamps(tmp_path)
    Study.of(tmp_path, few(device="cpu")).run()
    assert stamps(tmp_path) == before
    longer = Study.of(tmp_path, few(rounds=4)).run()
    assert longer.frame()["rounds_run"].to_list() == [4, 1]
    assert stamps(tmp_path).items() >= before.items()
    assert len(stamps(tmp_path)) == 3


def test_a_run_with_the_same_digest_elsewhere_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Study.of(tmp_path / "one", few()).run()
    monkeypatch.setattr(study_module, "run", None)  # nothing is run
    again = Study.of(tmp_path / "two", few(), axes=["method"], reuse=[tmp_path / "one"]).run()
    assert again.frame()["test HR@10 full"].equals(first.frame()["test HR@10 full"])
    monkeypatch.undo()

    folder = first.trials[0].folder
    (folder / "ranks.parquet").write_bytes(b"damaged")
    third = Study.of(tmp_path / "three", few(), reuse=[tmp_path / "one"])
    assert not study_module.take(third.trials[0], third.reuse)
    assert study_module.take(third.trials[1], third.reuse)
    assert not third.trials[0].folder.exists()


def test_the_budget_ends_and_the_same_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def by_the_clock(*arguments: Any) -> Runner:
        return Runner(*arguments[:2], clock, clock)

    monkeypatch.setattr(study_module, "Runner", by_the_clock)
    said: list[str] = []
    study = Study.of(tmp_path, few(), seeds=2).run(budget=45.0, report=said.append)
    # three rounds, then two of three: the last run is not thrown away after its last round
    assert clock.now == 50.0
    assert said == [
        "fedmf, name=slow, seed 0: done",
        "fedmf, name=slow, seed 1: The budget ended after round 2.",
    ]
    assert [trial.experiment.seed for trial in study.missing] == [1, 0, 1]
    again = Study.of(tmp_path, few(), seeds=2).run(budget=1000.0)
    assert not again.missing
    assert len(again.frame()) == 4


def test_ctrl_c_names_the_run_and_the_next_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(stop_at=20.0)
    with pytest.raises(RunInterruptedError, match=r"^Stopped during fedmf, name=slow, seed 0; "):
        Study.of(tmp_path, few()).run(callbacks=clock)
    assert len(Study.of(tmp_path, few()).run().frame()) == 2


class Posted(Executor):
    """Does at once what it is given, as another process reads it, and hands it back likewise."""

    def submit(self, do: Callable[..., Any], /, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        found: Future[Any] = Future()
        sent, given = pickle.loads(pickle.dumps((do, arguments)))
        found.set_result(pickle.loads(pickle.dumps(sent(*given))))
        return found


def test_runs_that_are_posted_to_others_give_the_same_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with two processes, of which `test_two_workers_give_the_same_table` starts real ones."""
    asked: list[int] = []

    def process_pool(workers: int) -> Executor:
        asked.append(workers)
        return Posted()

    monkeypatch.setattr(runner_module, "process_pool", process_pool)
    one = Study.of(tmp_path / "one", few(), seeds=2).run()
    two = Study.of(tmp_path / "two", few(), seeds=2).run(workers=2)
    assert asked == [2]
    measured = [name for name in one.frame().columns if name not in ("seconds", "folder")]
    assert two.frame().select(measured).equals(one.frame().select(measured))


@pytest.mark.slow
def test_two_processes_give_the_same_frame(tmp_path: Path) -> None:
    one = Study.of(tmp_path / "one", few(), seeds=2).run()
    two = Study.of(tmp_path / "two", few(), seeds=2).run(workers=2)
    measured = [name for name in one.frame().columns if name not in ("seconds", "folder")]
    assert two.frame().select(measured).equals(one.frame().select(measured))


def test_what_is_refused_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    study = Study.of(tmp_path, few())
    taken = study.trials[1].folder
    taken.mkdir(parents=True)
    (taken / "notes.txt").write_text("mine")
    with pytest.raises(TacitError, match="is not empty and holds no run"):
        study.run()
    assert not study.trials[0].folder.exists()
    with pytest.raises(TacitError, match=r"workers is 0; use at least 1\."):
        study.run(workers=0)
    with pytest.raises(TacitError, match=r"'slow' has 1 labels for the axes method, rate"):
        Study.of(tmp_path, few(), axes=["method", "rate"])
    with pytest.raises(TacitError, match="No run of this study is finished"):
        _ = Study.of(tmp_path / "new", few()).best


def test_a_run_that_diverges_ends_the_study_or_its_own_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, begun = study_module.run, []

    def wild(experiment: Experiment, *arguments: Any, **options: Any) -> Any:
        begun.append((experiment.name, experiment.seed))
        if experiment.name == "fedmf":
            raise DivergedError("Not numbers.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(study_module, "run", wild)
    with pytest.raises(DivergedError):
        Study.of(tmp_path / "one", few(), seeds=2).run()
    begun.clear()
    study = Study.of(tmp_path / "two", few(), seeds=2).run(skip_diverged=True)
    assert begun == [("fedmf", 0), ("popularity", 0), ("popularity", 1)]
    assert list(study.diverged) == [("slow",)]
    assert not study.missing
    assert study.best == {"name": "none"}


def test_another_folder_of_the_same_experiment_is_another_run(tmp_path: Path) -> None:
    study = Study.of(tmp_path, few()).run()
    moved = replace(study.trials[0], folder=tmp_path / "elsewhere")
    assert study.trials[0].finished
    assert not moved.finished


@pytest.mark.parametrize(
    ("ending", "begins"),
    [
        (".md", "| name | seed |"),
        (".html", "<table>\n<tr><th>name</th>"),
        (".tex", "\\begin{tabular}{l"),
        (".csv", "name,seed,dataset"),
    ],
)
def test_files(tmp_path: Path, ending: str, begins: str) -> None:
    study = Study.of(tmp_path, {"none": resolve("popularity")}).run()
    text = study.write(tmp_path / f"table{ending}").read_text()
    assert text.startswith(begins)
    assert text.count("popularity") >= 1
    with pytest.raises(TacitError, match=r"Cannot write a table to 'table.pdf'; end its name"):
        study.write(tmp_path / "table.pdf")


def test_the_lines_of_the_docs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL))
    assert code.count("Study.of") == 2
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # a cell can be run twice
        exec(code, {"__name__": "__main__"})
        assert "0 runs are left" in capsys.readouterr().out
    assert (tmp_path / "runs" / "rates" / "table.md").is_file()
