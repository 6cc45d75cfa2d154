"""A run folder of somebody else: it counts once all that can be counted again was counted again.

Checksums tell damage, not lies: whoever edits a number can write new ones. So the numbers of a
record are made again from the files beside it, and from the data and the experiment where the data
is at hand. What only a second run could tell, such as seconds, or ranks that were invented as a
whole, is left to the command that stands in the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from tacit.core.types import Task
from tacit.data.protocol import Protocol
from tacit.data.split import resolved_split
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric, summary
from tacit.evaluation.ranking import Evaluation
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import popularity
from tacit.experiment.data_record import DataRecord
from tacit.experiment.data_spec import DataSpec
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.record import RoundRecord, RunRecord
from tacit.experiment.record_parts import Counts, Privacy
from tacit.experiment.result import COLD_CUTOFFS, NAMES, both_rankings, cutoffs_of, read_ranks
from tacit.experiment.sealed import DamagedError
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.study.study import digest

TOLERANCE = 1e-9  # sums of other versions of numpy may differ in their last digits
NAMED_BY_STUDY = re.compile(r"-seed\d+-([0-9a-f]{10})$")  # the name of a study's folder


class UntrueError(TacitError):
    """A run that is not what it says; the message says what does not fit, in a few words."""


class NotComparableError(TacitError):
    """A true run whose numbers do not stand beside clean ones."""


@dataclass(frozen=True, eq=False)
class VerifiedRun:
    """A run that was found to be what it says, with what could not be checked of it."""

    folder: Path
    experiment: Experiment
    record: RunRecord
    ranks: Evaluation
    losses: tuple[float | None, ...]  # of the rounds
    unchecked: tuple[str, ...] = ()


class DataAtHand:
    """The data of experiments as it is here, read once for all runs on it; None where it is not."""

    def __init__(self) -> None:
        self._known: dict[tuple[DataSpec, Protocol], Prepared | None] = {}

    def of(self, experiment: Experiment) -> Prepared | None:
        key = (experiment.data, replace(experiment.protocol, select="best"))
        if key not in self._known:
            try:
                self._known[key] = prepare(experiment)
            except TacitError:
                self._known[key] = None
        return self._known[key]


def verify(folder: Path, data: DataAtHand | None = None) -> VerifiedRun:
    """The run in a folder, once it is found to be what it says.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     record = run(resolve("popularity"), Path(place, "one"))
    ...     found = verify(Path(place, "one"))
    >>> found.record == record, found.unchecked
    (True, ())
    """
    files = RunFolder(folder)
    experiment, record = files.experiment(), files.record()
    if files.is_old:
        raise UntrueError(
            "it was made by a version that kept neither checksums nor a record of its data; train "
            "it again"
        )
    for path in (files.metrics_file, files.ranks_file, files.digest_file):
        files.verified(path)
    experiment.check()
    if not experiment.protocol.is_clean:
        raise NotComparableError(
            f"its protocol is {experiment.protocol.name!r}, whose numbers do not compare with "
            "clean ones"
        )
    ranks = read_ranks(files.ranks_file)
    _require_experiment(folder, experiment, record)
    _require_digest(files, record)
    rounds = _rounds(files)
    _require_selection(rounds, experiment, record)
    _require_ranks(ranks, record)
    _require_metrics(experiment, record, ranks)
    _require_silence(experiment, record)
    prepared = (data or DataAtHand()).of(experiment)
    losses = tuple(one.loss for one in rounds)
    if prepared is None:
        absent = (
            f"{record.dataset} is not at hand here, so popularity, bytes, the guarantee and which "
            "items were held out are as the run says."
        )
        return VerifiedRun(folder, experiment, record, ranks, losses, (absent,))
    _require_data(files, experiment, record, prepared)
    _require_popularity(experiment, record, prepared)
    _require_costs(experiment, record, prepared)
    return VerifiedRun(folder, experiment, record, ranks, losses)


# What a folder must agree on with itself.


def _require_experiment(folder: Path, experiment: Experiment, record: RunRecord) -> None:
    """The record is of this experiment, and the folder is called by its digest if by any."""
    protocol = experiment.protocol
    said = {
        "method": (record.method, experiment.name),
        "plugins": (record.plugins, experiment.plugins),
        "dataset": (record.dataset, experiment.data.name),
        "protocol": (record.protocol, protocol.name),
        "clean": (record.clean, protocol.is_clean),
        "preset": (record.preset, experiment.preset),
        "seed": (record.seed, experiment.seed),
        "rounds": (record.rounds, experiment.rounds),
        "select_metric": (record.select_metric, protocol.select_metric),
        "device": (record.device, experiment.device),
    }
    for name, (told, asked) in said.items():
        if told != asked:
            raise UntrueError(
                f"its record says {name} {told!r}, and its experiment {name} {asked!r}"
            )
    named = NAMED_BY_STUDY.search(folder.resolve().name)
    if named is not None and named[1] != digest(experiment):
        raise UntrueError(
            f"its folder is named by the digest {named[1]}, and its experiment has the digest "
            f"{digest(experiment)}"
        )


def _require_digest(files: RunFolder, record: RunRecord) -> None:
    """The record and data/digest.json name the same data."""
    known = DataRecord.read(files)
    if known is None or record.data is None or known.digest.value != record.data.value:
        raise UntrueError("its record and data/digest.json name different data")


def _rounds(files: RunFolder) -> list[RoundRecord]:
    try:
        lines = files.metrics_file.read_bytes().splitlines()
        return [RoundRecord.of_json(line) for line in lines]
    except DamagedError as error:
        raise UntrueError(f"a line of metrics.jsonl cannot be read: {error}") from error


def _require_selection(
    rounds: Sequence[RoundRecord], experiment: Experiment, record: RunRecord
) -> None:
    """The selected round is the one that the validation values of the rounds ask for."""
    if [one.round for one in rounds] != list(range(1, record.rounds_run + 1)):
        raise UntrueError(
            f"its record says {record.rounds_run} {record.unit}s, and metrics.jsonl has "
            f"{len(rounds)}"
        )
    protocol, released = experiment.protocol, record.test_released
    ranking = "full" if protocol.select_on == "full" else "sampled99"
    values = {one.round: one.valid.of(ranking) for one in rounds if one.valid is not None}
    if released.round != record.selected_round or record.selected_round not in values:
        raise UntrueError(
            f"its record selects {record.unit} {record.selected_round}, of which no validation is "
            "written down"
        )
    found = {number: _selecting(protocol.select_metric, known) for number, known in values.items()}
    own = found[record.selected_round]
    if own is None:
        return  # a metric that no line holds
    if not _same(own, released.validation_value):
        raise UntrueError(
            f"its record says {released.validation_value:.6f} on validation, and metrics.jsonl "
            f"{own:.6f}"
        )
    last = max(values) if protocol.select == "last" else record.selected_round
    best = max(value for value in found.values() if value is not None)
    if last != record.selected_round or (protocol.select == "best" and own < best - TOLERANCE):
        raise UntrueError(
            f"its record selects {record.unit} {record.selected_round} at {own:.6f}, which is not "
            f"what its protocol selects by {protocol.select_metric}"
        )


def _selecting(name: str, values: Mapping[str, float]) -> float | None:
    """The value that selects, from the metrics of a line; that over several cut-offs is a mean."""
    kind, _, cutoffs = name.partition("@")
    names = [f"{kind}@{cutoff}" for cutoff in cutoffs.split("+")]
    if not all(one in values for one in names):
        return None
    return float(np.mean([values[one] for one in names]))


def _require_ranks(ranks: Evaluation, record: RunRecord) -> None:
    """Places that exist, of as many people and test items as the record counts."""
    for one in (ranks.full, ranks.sampled):
        if len(one) != record.counts.test or len(one) == 0:
            raise UntrueError(
                f"ranks.parquet has {len(one)} test items, and its record {record.counts.test}"
            )
        if len(np.unique(one.user_H)) != record.counts.evaluated_users:
            raise UntrueError("ranks.parquet has other people than its record counts")
        pairs = pl.DataFrame({"user": one.user_H, "item": one.item_H})
        if pairs.is_duplicated().any():
            raise UntrueError("ranks.parquet ranks a test item of somebody twice")
        room_H = one.candidates_H - one.above_H - one.tied_H  # the item itself takes one place
        if (one.above_H < 0).any() or (one.tied_H < 0).any() or (room_H < ~one.missed_H).any():
            raise UntrueError("ranks.parquet has places beyond the candidates")


def _require_metrics(experiment: Experiment, record: RunRecord, ranks: Evaluation) -> None:
    """Every metric of the record, and chance, made again from the ranks."""
    ties, cutoffs = experiment.protocol.ties, cutoffs_of(experiment.protocol)
    again = both_rankings(ranks, ties, cutoffs)
    at_chance = both_rankings(
        Evaluation(_at_chance(ranks.full), _at_chance(ranks.sampled)), "expected", cutoffs
    )
    cold = {} if record.cold is None else summary(ranks.full, COLD_CUTOFFS, NAMES, ties)
    found: list[tuple[str, Mapping[str, float], Mapping[str, float]]] = [
        ("cold metrics", {} if record.cold is None else record.cold.metrics, cold)
    ]
    for ranking in ("full", "sampled99"):
        told = record.reference.of(ranking)
        found.append((f"{ranking} ranking", record.metrics.of(ranking), again.of(ranking)))
        found.append((f"chance, {ranking} ranking", told.chance, at_chance.of(ranking)))
    for where, told_values, made in found:
        _require_same(where, told_values, made, "its ranks")


def _at_chance(ranks: Ranks) -> Ranks:
    """The same test items where everything has the same score; what is masked stays a miss."""
    missed_H = ranks.missed_H
    return replace(
        ranks,
        above_H=np.where(missed_H, ranks.above_H, 0),
        tied_H=np.where(missed_H, ranks.tied_H, ranks.candidates_H - 1),
    )


def _require_silence(experiment: Experiment, record: RunRecord) -> None:
    """No guarantee is told of a channel without noise."""
    assert record.data is not None
    task = Task(record.data.n_users, record.data.n_items)
    noisy = any(link.noisy for link in experiment.method.algorithm(task).channel)
    if record.privacy.guaranteed and not noisy:
        raise UntrueError("its record tells of a guarantee, and its experiment adds no noise")


# What a folder must agree on with the data and the experiment.


def _require_data(
    files: RunFolder, experiment: Experiment, record: RunRecord, prepared: Prepared
) -> None:
    """The run was made on the data that is here, and ranks what its split holds out."""
    known = DataRecord.read(files)
    assert known is not None
    known.require(experiment, prepared.digest, prepared)
    split = resolved_split(experiment.protocol.split, prepared.dataset).text
    if record.split != split:
        raise UntrueError(f"its record says the split is {record.split!r}, and it is {split!r}")
    if record.counts != Counts(**prepared.split.counts):
        raise UntrueError("its record counts other data than its experiment prepares")
    test, rows = prepared.split.test, prepared.dataset.interactions
    user_H, item_H = np.repeat(test.user_E, test.relevant.size_U), test.relevant.item_N
    held_out = pl.DataFrame(
        {
            "user_id": pl.Series(rows.users, dtype=pl.String).gather(user_H),
            "item_id": pl.Series(rows.items, dtype=pl.String).gather(item_H),
        }
    )
    table = pl.read_parquet(files.ranks_file)
    for one in ("full", "sampled"):
        ranked = table.filter(pl.col("candidate_set") == one).select("user_id", "item_id")
        if not ranked.sort("user_id", "item_id").equals(held_out.sort("user_id", "item_id")):
            raise UntrueError("ranks.parquet ranks other items than the split holds out")


def _require_popularity(experiment: Experiment, record: RunRecord, prepared: Prepared) -> None:
    """The full ranking alone: sampled candidates depend on the order of lines."""
    told = record.reference.full.popularity
    ranks = popularity(prepared.split.train, prepared.split.test).full
    made = {name: metric(ranks, name, experiment.protocol.ties) for name in told}
    _require_same("popularity, full ranking", told, made, "the data")


def _require_costs(experiment: Experiment, record: RunRecord, prepared: Prepared) -> None:
    """Bytes and the guarantee, as the experiment has them on this data; nothing is trained."""
    on_cpu = replace(experiment, device="cpu")
    trainer = Trainer(on_cpu, prepared.split.train)
    ledger = trainer.ledger(record.rounds_run)
    if record.ledger is None:
        raise UntrueError("its record has no ledger of what crossed; train it again")
    made, told = trainer.cost(record.selected_round), record.cost.model_dump(exclude_none=True)
    for name, value in (*made.items(), ("releases", ledger.releases)):
        said = record.ledger.releases if name == "releases" else told.get(name)
        if said != value:
            raise UntrueError(f"its record says {name} {said}, and its experiment makes {value}")
    if _sent(record) != sum(one.bytes_total for one in ledger.up):
        raise UntrueError("its ledger counts other bytes than its experiment sends")
    promised = Privacy.of(trainer.guarantee(), ())
    for name in ("epsilon", "delta", "view", "noise", "bound", "releases", "selection_covered"):
        one, other = getattr(record.privacy, name), getattr(promised, name)
        numbers = isinstance(one, float) and isinstance(other, float)
        if not (_same(one, other, relative=1e-6) if numbers else one == other):
            raise UntrueError(
                f"its record promises {name} {one}, and its experiment {name} {other}"
            )


def _sent(record: RunRecord) -> int:
    assert record.ledger is not None
    return sum(one.bytes_total for one in record.ledger.up)


def _require_same(
    where: str, told: Mapping[str, float], made: Mapping[str, float], source: str
) -> None:
    for name in told.keys() | made.keys():
        if name not in told or name not in made or not _same(told[name], made[name]):
            raise UntrueError(
                f"{name} ({where}) is {_shown(told, name)} in its record, and {source} give"
                f"{'s' if source == 'the data' else ''} {_shown(made, name)}"
            )


def _shown(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:.6f}" if name in values else "not there"


def _same(one: float, other: float, relative: float = 0.0) -> bool:
    return abs(one - other) <= TOLERANCE + relative * abs(other)


# Folders that hold runs.


def run_folders(paths: Sequence[str | Path]) -> Iterator[Path]:
    """Every run in these folders: the folder itself, or all that lie below it.

    >>> list(run_folders(["nowhere"]))
    Traceback (most recent call last):
    tacit.errors.TacitError: There is no folder at 'nowhere'; give run folders, or folders that \
hold some.
    """
    seen: set[Path] = set()
    for path in map(Path, paths):
        if not path.is_dir():
            raise TacitError(
                f"There is no folder at {str(path)!r}; give run folders, or folders that hold some."
            )
        name = RunFolder(path).experiment_file.name
        found = [path] if (path / name).is_file() else [p.parent for p in sorted(path.rglob(name))]
        if not found:
            raise TacitError(f"No run at {str(path)!r} or below it; give what `tacit train` wrote.")
        for folder in found:
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                yield folder
