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

from pydantic import TypeAdapter, ValidationError

from tacit.engines.device import one_torch_thread
from tacit.errors import TacitError, argument, whole
from tacit.evaluation.metrics import metric, parse_metric, summary
from tacit.evaluation.ranking import rank
from tacit.experiment.callbacks import Callback, Callbacks, Validation, together
from tacit.experiment.data_record import OLD, DataRecord, require_same
from tacit.experiment.folder import RunFolder, only_process, train_again
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.record import RunRecord
from tacit.experiment.report import write_report
from tacit.experiment.result import COLD_CUTOFFS, make_record, versions, write_ranks
from tacit.experiment.sealed import checksum, file_checksum
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps, require_writable
from tacit.experiment.trainer import Trainer
from tacit.files import append_line, reading, write_text

CHECKPOINT_SECONDS = 15.0


@dataclass
class RunProgress:
    """What a resumed run must know besides the state."""

    rounds_done: int = 0
    selected_round: int = 0
    selected_value: float = float("-inf")
    better_round: int = 0  # the last round that was strictly better: patience counts from it
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    data: str = ""  # the digest of the data on which the rounds were played
    experiment: str = ""  # the checksum of the experiment that played them
    metrics: str = ""  # the checksum of their lines


class RunInterruptedError(TacitError):
    """Ctrl-C: the run stopped between two rounds, and its checkpoint is on disk."""


@one_torch_thread()
def run(
    experiment: Experiment,
    out: str | Path,
    *,
    threads: int = 1,
    resume: bool = False,
    callbacks: Callbacks = (),
    checkpoint_seconds: float | None = None,
    keep_model: bool = True,
    private_on_disk: bool = False,
) -> RunRecord:
    """Run to the end (or continue) in the folder `out`; the record is also `out/run.json`.

    A checkpoint is written between rounds, every 15 seconds unless told otherwise. Without
    `keep_model` a finished run keeps its numbers and ranks alone: personal tables are large.
    With `private_on_disk` the rows that clients tune for themselves lie in files without a name in
    that folder, and not in memory; no number changes.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = run(resolve("popularity"), Path(folder) / "one")
    >>> record.metrics.full["HR@10"] == record.reference.full.popularity["HR@10"]
    True
    """
    experiment.check()
    require_writable(experiment)
    versions()  # whatever the record cannot do without is missed before the first round
    threads = whole("threads", threads)
    prepared = prepare(experiment)
    folder = RunFolder(Path(out))
    folder.refuse_another(experiment, resume=resume)
    prepared = _same_data(experiment, folder, prepared)
    if folder.finished:
        return _finished(folder)
    place = folder.path if private_on_disk else None
    trainer = Trainer(experiment, prepared.split.train, threads, place)
    pause = CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds
    with only_process(folder.path):
        if folder.finished:  # by a process that has ended since
            return _finished(folder)
        begun_here = folder.is_blank(experiment)
        try:
            folder.open(experiment, resume=resume)
            folder.clear_parts()
            # as long as no round is kept the record is that of the data at hand
            record = DataRecord.read(folder) if folder.has_checkpoint else None
            record = record or DataRecord.write(folder, experiment, prepared)
            running = _Run(
                experiment, prepared, trainer, folder, record, threads, together(callbacks), pause
            )
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


def _same_data(experiment: Experiment, folder: RunFolder, prepared: Prepared) -> Prepared:
    """The data as the run in this folder has it; other data is refused."""
    if folder.finished:
        require_same(experiment, folder, folder.record(), prepared)
        return prepared
    record = DataRecord.read(folder)
    if record is not None:
        record.require(experiment, prepared.digest, prepared)
        return record.arranged(prepared, experiment.protocol)
    if folder.has_checkpoint:
        raise TacitError(
            f"The run at {str(folder.path)!r} has no record of its data (data/digest.json is lost, "
            "or an older version began it), so it cannot go on safely; begin it anew in another "
            f"{argument('out')}."
        )
    return prepared


def _finished(folder: RunFolder) -> RunRecord:
    record = folder.record()
    if not folder.report_file.is_file():  # it was killed just before its last file
        folder.verified(folder.metrics_file)
        write_report(folder.path)
    if folder.is_old:
        return record.model_copy(update={"notes": (*record.notes, OLD)})
    return record


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        prepared: Prepared,
        trainer: Trainer,
        folder: RunFolder,
        record: DataRecord,
        threads: int,
        callback: Callback,
        checkpoint_seconds: float,
    ) -> None:
        self.experiment, self.prepared, self.trainer = experiment, prepared, trainer
        self.folder, self.record, self.threads, self.callback = folder, record, threads, callback
        self.checkpoint_seconds = checkpoint_seconds
        self.progress = RunProgress(
            data=record.digest.value, experiment=checksum(dumps(experiment).encode())
        )
        self.records: list[dict[str, Any]] = []
        self.stop_asked = False
        self.clock = (time.perf_counter(), time.process_time())

    def play(self, keep_model: bool) -> RunRecord:
        self._restore()
        rounds = self.trainer.rounds
        result = None
        try:
            self.callback.begin(self.experiment, rounds, self.trainer.describe().text)
            listening = threading.current_thread() is threading.main_thread()
            before = signal.signal(signal.SIGINT, self._ask_to_stop) if listening else None
            try:
                self._rounds(rounds)
            finally:
                if listening:
                    signal.signal(signal.SIGINT, before)
            result = self._release(keep_model)
        finally:
            self.callback.end(result)
        return result

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
        last_alone = self.experiment.protocol.select == "last"
        for number in range(first, rounds + 1):
            # asked before a round, so that a resumed run stops where an unbroken one does
            waited = number - 1 - self.progress.better_round
            if patience is not None and self.progress.better_round and waited >= patience:
                break
            self.trainer.run_round()
            record: dict[str, Any] = {"round": number, "loss": self.trainer.loss}
            found = None
            if number % self.experiment.evaluate_every == 0 or number == rounds:
                found = self._validate(number, may_choose=not last_alone or number == rounds)
                record["valid"] = found.metrics
            self.records.append(record)
            append_line(self.folder.metrics_file, json.dumps(record))
            if found is not None:
                self.callback.validation(found)
            self.callback.round(number, self.trainer.loss)
            if self.stop_asked:
                self._save()
                raise RunInterruptedError(
                    f"Stopped after round {number} of {rounds}; continue with "
                    f"{argument('resume', True)} {argument('out', str(self.folder.path))}."
                )
            began = time.perf_counter()
            wait = max(pause, 10 * save_took) if pause else 0.0
            if began - saved_at > wait and number < rounds:
                self._save()
                saved_at = time.perf_counter()
                save_took = saved_at - began

    def _validate(self, number: int, may_choose: bool) -> Validation:
        """Rank the validation part; a round that may be chosen is kept where it is the best, or
        where nothing is compared."""
        protocol, split = self.experiment.protocol, self.prepared.split
        valid = rank(self.trainer.scores(), split.valid, threads=self.threads)
        chosen = valid.full if protocol.select_on == "full" else valid.sampled
        value = metric(chosen, protocol.select_metric, ties=protocol.ties)
        better, equal = value > self.progress.selected_value, value == self.progress.selected_value
        if better and may_choose:
            self.progress.better_round = number
        if may_choose and (better or (equal and protocol.select_of_equals == "last")):
            self.progress.selected_round, self.progress.selected_value = number, value
            self.trainer.keep_best()
        cutoffs = sorted({10, parse_metric(protocol.select_metric)[1]})
        values = {
            name: summary(ranks, cutoffs=cutoffs, names=("HR", "NDCG"), ties=protocol.ties)
            for name, ranks in (("full", valid.full), ("sampled99", valid.sampled))
        }
        if split.train.warm_W is not None:  # untouched items are judged by their recall
            values["full"] |= summary(valid.full, COLD_CUTOFFS, ("Recall",), protocol.ties)
        best, at = self.progress.selected_value, self.progress.selected_round
        if protocol.select == "last":
            best, at = value, number  # as long as no later round is played
        return Validation(number, protocol.select_metric, value, best, at, values)

    def _save(self) -> None:
        self._tick()
        self.progress.rounds_done = len(self.records)
        self.progress.metrics = file_checksum(self.folder.metrics_file)
        self.trainer.save_best(self.folder.checkpoint_dir / "best", self._origin())
        self.trainer.save(self.folder.checkpoint_dir / "last", asdict(self.progress))

    def _origin(self) -> dict[str, str]:
        """What a state says of where it comes from."""
        return {"data": self.progress.data, "experiment": self.progress.experiment}

    def _tick(self) -> None:
        now = (time.perf_counter(), time.process_time())
        self.progress.seconds += now[0] - self.clock[0]
        self.progress.cpu_seconds += now[1] - self.clock[1]
        self.clock = now

    def _restore(self) -> None:
        """Go back to the last checkpoint; lines written after it are played again."""
        note = self.trainer.restore(self.folder.checkpoint_dir)
        lines: list[str] = []
        if note is not None:
            self.progress = self._progress(note)
            lines = self._lines(self.progress.rounds_done)
            self.records = [json.loads(line) for line in lines]
        write_text(self.folder.metrics_file, "".join(line + "\n" for line in lines))

    def _progress(self, note: dict[str, Any]) -> RunProgress:
        where = str(self.folder.checkpoint_dir)
        try:
            progress = TypeAdapter(RunProgress).validate_python(note)
        except ValidationError as error:
            raise TacitError(
                f"The checkpoint in {where!r} has no progress that can be read; begin the run anew "
                f"in another {argument('out')}."
            ) from error
        if progress.data != self.record.digest.value:
            raise TacitError(
                f"The checkpoint in {where!r} was made on other data than data/digest.json says; "
                f"begin the run anew in another {argument('out')}."
            )
        if progress.experiment != self.progress.experiment:
            raise TacitError(
                f"The checkpoint in {where!r} was made with other settings than experiment.toml "
                f"says; bring those back, or begin the run anew in another {argument('out')}."
            )
        return progress

    def _lines(self, done: int) -> list[str]:
        """The lines of the rounds up to the checkpoint, as they were written."""
        path, content = self.folder.metrics_file, b""
        if path.is_file():
            with reading(path, train_again()):
                content = path.read_bytes()
        lines = content.splitlines(keepends=True)[:done]
        if len(lines) < done:
            raise TacitError(
                f"{str(path)!r} has {len(lines)} lines but the checkpoint is of round {done}; "
                "remove the folder to begin the run anew."
            )
        if checksum(b"".join(lines)) != self.progress.metrics:
            raise TacitError(
                f"{str(path)!r} is damaged: its checksum does not match; remove the folder to "
                "begin the run anew."
            )
        return [line.decode("utf-8").rstrip("\n") for line in lines]

    def _release(self, keep_model: bool) -> RunRecord:
        """Rank the test part, once, with the selected round's state, and write the result."""
        self._tick()
        selected = self.progress.selected_round
        if keep_model:
            self.trainer.save_best(self.folder.model_dir, self._origin())
        else:
            self.record.drop_tables()
        scores, split = self.trainer.best_scores(), self.prepared.split
        test = rank(scores, split.test, top=10, threads=self.threads)
        result = make_record(
            self.experiment,
            self.prepared,
            self.trainer,
            test,
            rounds_run=len(self.records),
            selected_round=selected,
            selected_value=self.progress.selected_value,
            seconds=self.progress.seconds,
            cpu_seconds=self.progress.cpu_seconds,
            threads=self.threads,
            folder=self.folder.path,
            data=self.record.digest,
        )
        folder = self.folder
        write_ranks(folder.ranks_file, test, self.prepared.dataset)
        folder.write_checksums(result.json_text)
        write_text(folder.result_file, result.json_text)
        write_report(folder.path)
        return folder.record()
