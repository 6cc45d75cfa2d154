"""Many runs as one table: what is missing is run, what is finished is used again.

A `Study` is a list of experiments with labels. Each has a folder of its own, whose finished run
counts as long as it is the run of the very same experiment (by digest) on the same data. `run` does
what is missing, in order, and may be stopped and given again. `frame` is one row per run.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tacit.errors import TacitError, nearest
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.callbacks import Callback, Callbacks
from tacit.experiment.data_record import DataNow
from tacit.experiment.folder import RunFolder
from tacit.experiment.names import slug
from tacit.experiment.record import RunRecord
from tacit.experiment.run import RunInterruptedError, run
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps
from tacit.files import whole_folder
from tacit.study.runner import Job, JobOutcome, OutOfTimeError, Runner
from tacit.study.writer import write_frame

RANKINGS = ("full", "sampled99")


def digest(*experiments: Experiment) -> str:
    """A short name of experiments that changes whenever one of them does; where they run is no
    part of what they are.

    >>> from tacit.experiment.resolve import resolve
    >>> digest(resolve("fedmf")) == digest(resolve("fedmf", device="cuda"))
    True
    >>> digest(resolve("fedmf")) == digest(resolve("fedmf", seed=1))
    False
    """
    text = "\n".join(dumps(replace(experiment, device="cpu")) for experiment in experiments)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of a study: its labels (a column each), its experiment, and its folder.

    >>> from tacit.experiment.resolve import resolve
    >>> Trial({"rounds": "5"}, resolve("fedmf", rounds=5, seed=2), Path("runs/one")).name
    'fedmf, rounds=5, seed 2'
    """

    labels: Mapping[str, str]
    experiment: Experiment
    folder: Path

    @property
    def name(self) -> str:
        """What it is called while it runs."""
        label = self.experiment.label
        others = [f"{axis}={value}, " for axis, value in self.labels.items() if value != label]
        return f"{label}, {''.join(others)}seed {self.experiment.seed}"

    @property
    def group(self) -> tuple[str, ...]:
        """What the seeds of one setting have in common."""
        return tuple(self.labels.values())

    @property
    def finished(self) -> bool:
        """Whether the run of this very experiment is finished here."""
        files = RunFolder(self.folder)
        return files.finished and digest(files.experiment()) == digest(self.experiment)

    @property
    def record(self) -> RunRecord:
        return RunFolder(self.folder).record()


@dataclass
class Study:
    """Experiments with labels, and their runs.

    >>> import tempfile
    >>> import tacit
    >>> from tacit.study import Study
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     methods = {name: tacit.resolve(name) for name in ("random", "popularity")}
    ...     study = Study.of(folder, methods, axes=["method"]).run()
    ...     frame, best = study.frame(["HR@10"]), study.best
    >>> frame["method"].to_list(), frame["test HR@10 full"][1] == frame["popularity HR@10 full"][1]
    (['random', 'popularity'], True)
    >>> best
    {'method': 'popularity'}
    """

    trials: Sequence[Trial]
    reuse: Sequence[Path] = ()  # folders in which a run of the same digest may lie
    diverged: dict[tuple[str, ...], Trial] = field(default_factory=dict)  # by what it is called
    notes: list[str] = field(default_factory=list)  # of data that could not be checked

    @classmethod
    def of(
        cls,
        out: str | Path,
        experiments: Mapping[str, Experiment] | Mapping[tuple[str, ...], Experiment],
        *,
        axes: Sequence[str] = ("name",),
        seeds: int | None = None,
        reuse: Sequence[Path] = (),
    ) -> Study:
        """A study in the folder `out`, of experiments by what they are called.

        `axes` name the columns of what they are called: with two of them a key is a pair. With
        `seeds` each is run with the seeds 0, 1, …; without, with its own.
        """
        trials = []
        for key, experiment in experiments.items():
            called = (key,) if isinstance(key, str) else key
            if len(called) != len(axes):
                raise TacitError(
                    f"{key!r} has {len(called)} labels for the axes {', '.join(axes)}; give one "
                    "each."
                )
            labels = dict(zip(axes, called, strict=True))
            for seed in [experiment.seed] if seeds is None else range(seeds):
                one = replace(experiment, seed=seed)
                name = f"{slug('+'.join(called))}-seed{seed}-{digest(one)}"
                trials.append(Trial(labels, one, Path(out) / name))
        return cls(trials, reuse)

    def run(
        self,
        *,
        threads: int = 1,
        workers: int = 1,
        budget: float = float("inf"),
        callbacks: Callbacks = (),
        report: Callable[[str], None] = lambda line: None,
        keep_model: bool = True,
        skip_diverged: bool = False,
    ) -> Study:
        """Run what is missing, in order; finished runs are used again.

        No run is begun after `budget` seconds, and the one at work stops between two rounds:
        `missing` says what is left, and the same call goes on with it. With `workers` several runs
        go on at the same time, a process each. A run that diverges ends the study, or with
        `skip_diverged` only its own setting, whose other seeds are then left out.
        """
        runner = Runner(workers, budget, callbacks)
        data, missing = DataNow(), []
        for trial in self.trials:  # all that could be refused is refused before anything is run
            if trial.finished:
                data.require(trial.experiment, RunFolder(trial.folder))
            else:
                RunFolder(trial.folder).refuse_another(trial.experiment, resume=True)
                missing.append(trial)
        self.notes = data.absent

        def jobs() -> Iterator[Job[TrialOutcome]]:
            for trial in missing:
                if trial.group not in self.diverged:
                    work = partial(_work, trial, tuple(self.reuse), threads, keep_model)
                    yield Job(trial.name, work)

        def absorb(job: Job[TrialOutcome], outcome: TrialOutcome) -> None:
            report(f"{job.key}: {outcome.status}")
            if isinstance(outcome.error, DivergedError) and skip_diverged:
                self.diverged[outcome.trial.group] = outcome.trial
            elif outcome.error is not None:
                raise outcome.error

        stopped = runner.run(jobs(), absorb)
        if stopped is not None:
            raise RunInterruptedError(
                f"Stopped during {stopped.key}; give the same command again to continue."
            )
        return self

    @property
    def missing(self) -> list[Trial]:
        """What is not finished, and has not diverged."""
        return [t for t in self.trials if not t.finished and t.group not in self.diverged]

    @property
    def records(self) -> list[tuple[Trial, RunRecord]]:
        """What is finished."""
        return [(trial, trial.record) for trial in self.trials if trial.finished]

    @property
    def best(self) -> dict[str, str]:
        """The labels that validation prefers, seeds averaged; no test value is looked at."""
        values: dict[tuple[str, ...], list[float]] = {}
        for trial, record in self.records:
            values.setdefault(trial.group, []).append(record.test_released.validation_value)
        if not values:
            raise TacitError("No run of this study is finished; call run() first.")
        best = max(values, key=lambda group: float(np.mean(values[group])))  # the first of equals
        return dict(next(trial.labels for trial in self.trials if trial.group == best))

    def frame(self, metrics: Sequence[str] = ("HR@10", "NDCG@10")) -> pl.DataFrame:
        """One row per finished run: labels, the value on validation, metrics of the test part with
        popularity and chance, cost, privacy, seconds, and where it lies."""
        rows = [self._row(trial, record, metrics) for trial, record in self.records]
        return pl.DataFrame(rows, infer_schema_length=None)

    def write(self, path: str | Path, metrics: Sequence[str] = ("HR@10", "NDCG@10")) -> Path:
        """The frame as a file; its ending says the format: .md, .html, .tex or .csv."""
        return write_frame(self.frame(metrics), path)

    def _row(self, trial: Trial, record: RunRecord, metrics: Sequence[str]) -> dict[str, Any]:
        for name in metrics:
            if name not in record.metrics.full:
                raise TacitError(
                    f"The run at {str(trial.folder)!r} has no metric {name!r}; "
                    f"{nearest(name, record.metrics.full)}"
                )
        measured = {
            f"{what} {name} {ranking}": values[name]
            for ranking in RANKINGS
            for what, values in (
                ("test", record.metrics.of(ranking)),
                ("popularity", record.reference.of(ranking).popularity),
                ("chance", record.reference.of(ranking).chance),
            )
            for name in metrics
        }
        return {
            **trial.labels,
            "seed": record.seed,
            "dataset": record.dataset,
            "protocol": record.protocol,
            f"validation {record.select_metric}": record.test_released.validation_value,
            **measured,
            "selected_round": record.selected_round,
            "rounds_run": record.rounds_run,
            "bytes_up": record.cost.bytes_up,
            "bytes_down": record.cost.bytes_down,
            "client_bytes": record.cost.client_bytes,
            "privacy": record.privacy.text,
            "epsilon": record.privacy.epsilon,
            "delta": record.privacy.delta,
            "view": record.privacy.view,
            "engine": record.engine.path,
            "device": record.device,
            "seconds": record.seconds,
            "digest": digest(trial.experiment),
            "folder": str(trial.folder),
        }


# One trial, here or in another process.


@dataclass
class TrialOutcome(JobOutcome):
    """What a trial came to: finished, stopped at the budget, or a mistake."""

    trial: Trial
    status: str
    error: TacitError | None = None


def _work(
    trial: Trial, reuse: Sequence[Path], threads: int, keep_model: bool, callback: Callback
) -> TrialOutcome:
    try:
        finish(trial, reuse, threads=threads, callbacks=callback, keep_model=keep_model)
    except OutOfTimeError as stop:
        return TrialOutcome(trial, str(stop))
    except (RunInterruptedError, KeyboardInterrupt):
        return TrialOutcome(trial, "stopped", interrupted=True)
    except TacitError as error:
        return TrialOutcome(trial, str(error), error)
    return TrialOutcome(trial, "done")


def finish(
    trial: Trial,
    reuse: Sequence[Path] = (),
    *,
    threads: int = 1,
    callbacks: Callbacks = (),
    keep_model: bool = True,
) -> RunRecord:
    """The record of a trial: of its finished run, of one with the same digest elsewhere, or of a
    run that is begun or continued now."""
    if trial.finished:
        DataNow().require(trial.experiment, RunFolder(trial.folder))
        return trial.record
    if take(trial, reuse):
        return trial.record
    experiment, folder = trial.experiment, trial.folder
    return run(
        experiment, folder, threads=threads, resume=True, callbacks=callbacks, keep_model=keep_model
    )


def take(trial: Trial, reuse: Sequence[Path]) -> bool:
    """Copy a finished run with the same digest from other folders, whole or not at all. A run that
    was begun here goes on here; one that is damaged there is not taken."""
    if trial.folder.exists():
        return False
    for place in reuse:
        for found in sorted(place.rglob(f"*-{digest(trial.experiment)}")):
            if _whole(RunFolder(found)):
                with whole_folder(trial.folder) as half:
                    shutil.copytree(found, half, dirs_exist_ok=True)
                return True
    return False


def _whole(folder: RunFolder) -> bool:
    try:
        return folder.record() is not None and folder.verified(folder.ranks_file).is_file()
    except TacitError:
        return False
