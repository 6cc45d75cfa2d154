"""A finished run as analyses see it: what it was, what it gave, and the model it kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tacit.core.capabilities import is_ground
from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.types import Task
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.ranking import Evaluation, ScoreBlock
from tacit.experiment.checkpoint import load_model
from tacit.experiment.data_record import prepare_again, require_one_data
from tacit.experiment.folder import RunFolder
from tacit.experiment.names import data_title
from tacit.experiment.prepare import Prepared
from tacit.experiment.record import RoundRecord, RunRecord
from tacit.experiment.result import read_ranks
from tacit.experiment.sealed import DamagedError
from tacit.experiment.spec import Experiment
from tacit.study.compare import Entrant, check_alike, protocol_warning


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """One run; everything heavy is read when it is first asked for."""

    name: str  # of its own among the runs of one analysis
    folder: RunFolder
    experiment: Experiment
    record: RunRecord

    @property
    def place(self) -> str:
        """Dataset and protocol, with a warning where numbers are not clean."""
        protocol = self.experiment.protocol
        warning = protocol_warning(protocol.name, protocol.is_clean)
        return f"{data_title(self.experiment.data.name)}{warning and ' ' + warning}"

    @cached_property
    def prepared(self) -> Prepared:
        """The data as it was split for the run."""
        return prepare_again(self.experiment, self.folder, self.record)

    @cached_property
    def test(self) -> Evaluation:
        """The released test ranks."""
        return read_ranks(self.folder.verified(self.folder.ranks_file))

    @cached_property
    def rounds(self) -> list[RoundRecord]:
        """What was written down of every round."""
        path = self.folder.metrics_file
        try:
            lines = self.folder.verified_content(path).splitlines()
            return [RoundRecord.of_json(line) for line in lines]
        except DamagedError as error:
            raise TacitError(f"Cannot read {str(path)!r} ({error}); train again.") from error

    @property
    def composed(self) -> bool:
        """Whether the method is an expression over parts, with an item table to look at."""
        return self.experiment.method.composed is not None

    @cached_property
    def algorithm(self) -> ComposedAlgorithm:
        method, counts = self.experiment.method.composed, self.record.counts
        if method is None:
            raise TacitError(
                f"{self.name} trains no item table on devices, so there is none to look at; give a "
                "run of a method like fedmf or pfedrec."
            )
        task = Task(counts.users, counts.items)
        if not is_ground(method.items):
            task = Task.of(self.prepared.split.train)
        return compose(method, task)

    @cached_property
    def state(self) -> State:
        """The model of the selected round."""
        return load_model(self.folder)

    def scores(self, state: State | None = None) -> ScoreBlock:
        """Logits of the kept model, or of a state that an analysis made from it."""
        train = None
        if self.algorithm.method.items.reads_history:
            train = self.prepared.split.train
        kept = self.state if state is None else state
        return Scorer(self.algorithm, kept, train=train)


def finished_runs(
    folders: Sequence[str | Path], names: Sequence[str] | None = None
) -> list[FinishedRun]:
    """The runs in some folders, each under a name of its own: one of `names`, or what it runs.

    >>> finished_runs(["nowhere"])
    Traceback (most recent call last):
    tacit.errors.TacitError: No run at 'nowhere': there is no experiment.toml; give a folder that \
`tacit train` wrote.
    """
    files = [RunFolder(Path(folder)) for folder in folders]
    if len({one.path.resolve() for one in files}) < len(files):
        raise TacitError("The same run folder is given twice; give each one once.")
    if names is not None and (len(names) != len(files) or len(set(names)) < len(names)):
        raise TacitError(f"{len(names)} names for {len(files)} runs; give each one of its own.")
    found = [(one, one.experiment(), one.record()) for one in files]
    if names is not None:
        return [FinishedRun(name, *one) for name, one in zip(names, found, strict=True)]
    labels = [experiment.label for _, experiment, _ in found]
    short = [f"{label} ({one.path.name})" for label, one in zip(labels, files, strict=True)]
    long = [f"{label} ({one.path})" for label, one in zip(labels, files, strict=True)]
    runs = []
    for place, (one, experiment, record) in enumerate(found):
        names = next(n for n in (labels, short, long) if n.count(n[place]) == 1)
        runs.append(FinishedRun(names[place], one, experiment, record))
    return runs


def require_alike(runs: Sequence[FinishedRun]) -> None:
    """Refuse numbers of different data, splits or protocols in one figure."""
    check_alike([Entrant(run.name, (run.experiment,), ()) for run in runs])
    for run in runs[1:]:
        require_one_data((runs[0].name, run.name), (runs[0].record, run.record))
