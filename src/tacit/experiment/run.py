"""Run an experiment: rounds, selection on validation, checkpoints, then the test and the result."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.evaluation.metrics import metric, parse_metric, summary
from tacit.evaluation.ranking import rank
from tacit.experiment.cold_result import CUTOFFS as COLD_CUTOFFS
from tacit.experiment.course import Course, course_of
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.report import write_report
from tacit.experiment.result import make_result, write_ranks
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import require_writable
from tacit.experiment.watch import Silent, Watcher
from tacit.files import append_line, write_text

CHECKPOINT_SECONDS = 15.0


@dataclass
class Progress:
    """What a resumed run must know besides the state."""

    rounds_done: int = 0
    selected_round: int = 0
    selected_value: float = float("-inf")
    better_round: int = 0  # the last round that was strictly better: patience counts from it
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class RunInterruptedError(TacitError):
    """Ctrl-C: the run stopped between two rounds, and its checkpoint is on disk."""


def run(
    experiment: Experiment,
    out: str | Path,
    *,
    threads: int = 1,
    resume: bool = False,
    watch: Watcher | None = None,
    checkpoint_seconds: float | None = None,
    keep_model: bool = True,
) -> dict[str, Any]:
    """Run to the end (or continue) in the folder `out`; the result is also `out/run.json`.

    A checkpoint is written between rounds, every 15 seconds unless told otherwise. Without
    `keep_model` a finished run keeps its numbers and ranks alone: personal tables are large.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = run(resolve("popularity"), Path(folder) / "one")
    >>> result["metrics"]["full"]["HR@10"] == result["reference"]["full"]["popularity"]["HR@10"]
    True
    """
    require_writable(experiment)
    experiment.check()
    prepared = prepare(experiment)
    course = course_of(experiment, prepared.split.train, threads)
    folder = RunFolder(Path(out))
    begun_here = not folder.experiment_file.exists()
    folder.open(experiment, resume=resume)
    if folder.finished:
        if not folder.report_file.is_file():  # it was killed just before its last file
            write_report(folder.path)
        return folder.result()
    pause = CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds
    try:
        running = _Run(experiment, prepared, course, folder, threads, watch or Silent(), pause)
        result = running.play(keep_model)
        if not keep_model and folder.checkpoint_dir.exists():
            shutil.rmtree(folder.checkpoint_dir)
        return result
    except RunInterruptedError:
        raise
    except TacitError:
        if begun_here and not folder.checkpoint_dir.exists():
            shutil.rmtree(folder.path)  # it diverged at once: nothing here is worth keeping
        raise


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        prepared: Prepared,
        course: Course,
        folder: RunFolder,
        threads: int,
        watch: Watcher,
        checkpoint_seconds: float,
    ) -> None:
        self.experiment, self.prepared, self.course = experiment, prepared, course
        self.folder, self.threads, self.watch = folder, threads, watch
        self.checkpoint_seconds = checkpoint_seconds
        self.progress = Progress()
        self.records: list[dict[str, Any]] = []
        self.stop_asked = False
        self.clock = (time.perf_counter(), time.process_time())

    def play(self, keep_model: bool) -> dict[str, Any]:
        self._restore()
        rounds = self.course.rounds
        self.watch.begin(self.experiment, self.prepared, self.course.describe(), rounds)
        listening = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._ask_to_stop) if listening else None
        try:
            self._rounds(rounds)
        finally:
            self.watch.end()
            if listening:
                signal.signal(signal.SIGINT, before)
        return self._release(keep_model)

    def _ask_to_stop(self, *_: object) -> None:
        if self.stop_asked:
            raise KeyboardInterrupt
        self.stop_asked = True

    def _rounds(self, rounds: int) -> None:
        # tables of gigabytes take seconds to write: never more than a tenth of the time
        pause, save_took = self.checkpoint_seconds, 0.0
        saved_at = time.perf_counter()
        first = len(self.records) + 1
        patience = self.experiment.protocol.patience
        for number in range(first, rounds + 1):
            # asked before a round, so that a resumed run stops where an unbroken one does
            waited = number - 1 - self.progress.better_round
            if patience is not None and self.progress.better_round and waited >= patience:
                break
            self.course.advance()
            record: dict[str, Any] = {"round": number, "loss": self.course.loss}
            if number % self.experiment.evaluate_every == 0 or number == rounds:
                record["valid"] = self._validate(number)
            self.records.append(record)
            append_line(self.folder.metrics_file, json.dumps(record))
            best = self.progress.selected_value if self.progress.selected_round else None
            self.watch.round(record, best)
            if self.stop_asked:
                self._save()
                raise RunInterruptedError(
                    f"Stopped after round {number} of {rounds}; continue with --resume --out "
                    f"{self.folder.path}."
                )
            began = time.perf_counter()
            wait = max(pause, 10 * save_took) if pause else 0.0
            if began - saved_at > wait and number < rounds:
                self._save()
                saved_at = time.perf_counter()
                save_took = saved_at - began

    def _validate(self, number: int) -> dict[str, Any]:
        protocol, split = self.experiment.protocol, self.prepared.split
        valid = rank(self.course.scores(), split.valid, threads=self.threads)
        chosen = valid.full if protocol.select_on == "full" else valid.sampled
        value = metric(chosen, protocol.select_metric, ties=protocol.ties)
        better, equal = value > self.progress.selected_value, value == self.progress.selected_value
        if better:
            self.progress.better_round = number
        if better or (equal and protocol.select_of_equals == "last"):
            self.progress.selected_round, self.progress.selected_value = number, value
            self.course.mark_best()
        cutoffs = sorted({10, parse_metric(protocol.select_metric)[1]})
        values = {
            name: summary(ranks, cutoffs=cutoffs, names=("HR", "NDCG"), ties=protocol.ties)
            for name, ranks in (("full", valid.full), ("sampled99", valid.sampled))
        }
        if split.train.warm_W is not None:  # untouched items are judged by their recall
            values["full"] |= summary(valid.full, COLD_CUTOFFS, ("Recall",), protocol.ties)
        return values

    def _save(self) -> None:
        self._tick()
        self.progress.rounds_done = len(self.records)
        self.course.save_best(self.folder.checkpoint_dir / "best")
        self.course.save(self.folder.checkpoint_dir / "last", asdict(self.progress))

    def _tick(self) -> None:
        now = (time.perf_counter(), time.process_time())
        self.progress.seconds += now[0] - self.clock[0]
        self.progress.cpu_seconds += now[1] - self.clock[1]
        self.clock = now

    def _restore(self) -> None:
        """Go back to the last checkpoint; lines written after it are played again."""
        note = self.course.restore(self.folder.checkpoint_dir)
        lines: list[str] = []
        if note is not None:
            self.progress = Progress(**note)
            done = self.progress.rounds_done
            if self.folder.metrics_file.is_file():
                lines = self.folder.metrics_file.read_text(encoding="utf-8").splitlines()[:done]
            if len(lines) < done:
                raise TacitError(
                    f"{str(self.folder.metrics_file)!r} has {len(lines)} lines but the checkpoint "
                    f"is of round {done}; remove the folder to begin the run anew."
                )
            self.records = [json.loads(line) for line in lines]
        write_text(self.folder.metrics_file, "".join(line + "\n" for line in lines))

    def _release(self, keep_model: bool) -> dict[str, Any]:
        """Rank the test part, once, with the selected round's state, and write the result."""
        self._tick()
        selected = self.progress.selected_round
        if keep_model:
            self.course.save_best(self.folder.model_dir)
        scores, split = self.course.best_scores(), self.prepared.split
        test = rank(scores, split.test, top=10, threads=self.threads)
        result = make_result(
            self.experiment,
            self.prepared,
            self.course,
            test,
            rounds_run=len(self.records),
            selected_round=selected,
            selected_value=self.progress.selected_value,
            seconds=self.progress.seconds,
            cpu_seconds=self.progress.cpu_seconds,
            threads=self.threads,
            folder=self.folder.path,
        )
        write_ranks(self.folder.ranks_file, test, self.prepared.dataset)
        write_text(self.folder.result_file, json.dumps(result, indent=1))
        write_report(self.folder.path)
        return result
