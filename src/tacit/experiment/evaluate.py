"""Other metrics of a finished run, from its saved ranks: nothing is trained again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tacit.errors import TacitError, argument
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranks import Ranks, Ties
from tacit.experiment.data_record import OLD, NoOrderError, require_same
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import Metrics, Numbers, Privacy, RecordPart
from tacit.experiment.result import read_ranks
from tacit.experiment.spec import Experiment

METRICS_SHOWN: tuple[str, ...] = (
    "HR@5",
    "HR@10",
    "HR@20",
    "HR@50",
    "NDCG@5",
    "NDCG@10",
    "NDCG@20",
    "NDCG@50",
    "MRR@10",
)


class EvaluatedPart(RecordPart):
    """One kind of test items: how many there are, and their metrics if there are any."""

    users: int
    held_out: int
    full: Numbers


class EvaluatedBreakdown(RecordPart):
    """Test items that are in somebody's training data, and those that are in nobody's."""

    warm: EvaluatedPart
    unseen: EvaluatedPart


class EvaluatedRun(RecordPart):
    """Metrics that were computed again from the saved ranks of a run."""

    method: str
    plugins: tuple[str, ...]
    dataset: str
    protocol: str
    clean: bool
    split: str
    seed: int
    privacy: Privacy
    selected_round: int
    run: str
    ties: Ties
    metrics: Metrics
    breakdown: EvaluatedBreakdown | None  # None where the data is not at hand
    notes: tuple[str, ...]

    @property
    def label(self) -> str:
        """The method with its plug-ins."""
        return " + ".join((self.method, *self.plugins))


def evaluate(
    folder: str | Path,
    metrics: Sequence[str] = METRICS_SHOWN,
    ties: Ties | None = None,
) -> EvaluatedRun:
    """Metrics of both rankings, and of warm and unseen items where the data is at hand; data that
    has changed since the run is refused.

    Without `ties` the rule of the run's protocol applies.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     record = run(resolve("popularity"), Path(place) / "one")
    ...     again = evaluate(Path(place) / "one", ["HR@10", "MAP@20"])
    >>> again.metrics.full["HR@10"] == record.metrics.full["HR@10"]
    True
    """
    files = RunFolder(Path(folder))
    record, experiment = files.record(), files.experiment()
    test = read_ranks(files.verified(files.ranks_file))
    rule = ties or experiment.protocol.ties
    if rule not in ("expected", "pessimistic"):
        raise TacitError(f"ties is {rule!r}; it must be 'expected' or 'pessimistic'.")
    if not metrics:
        raise TacitError(f"No metric is named; give for instance {argument('metrics', 'HR@10')}.")
    both = Metrics(
        full=_values(test.full, metrics, rule), sampled99=_values(test.sampled, metrics, rule)
    )
    breakdown, notes = _breakdown(files, record, experiment, test.full, metrics, rule)
    return EvaluatedRun(
        method=record.method,
        plugins=record.plugins,
        dataset=record.dataset,
        protocol=record.protocol,
        clean=record.clean,
        split=record.split,
        seed=record.seed,
        privacy=record.privacy,
        selected_round=record.selected_round,
        run=str(folder),
        ties=rule,
        metrics=both,
        breakdown=breakdown,
        notes=tuple(notes),
    )


def _breakdown(
    files: RunFolder,
    record: RunRecord,
    experiment: Experiment,
    full: Ranks,
    metrics: Sequence[str],
    ties: Ties,
) -> tuple[EvaluatedBreakdown | None, list[str]]:
    """Warm and unseen items apart, and notes; None where the data of the run is not at hand."""
    notes = [OLD] if files.is_old else []
    try:
        prepared = prepare(experiment)
    except TacitError as error:  # it is not here, so there is nothing to compare with
        return None, [f"No breakdown by seen and unseen items: {error}", *notes]
    data = require_same(experiment, files, record, prepared)
    if data is not None:
        try:
            prepared = data.arranged(prepared, experiment.protocol)
        except NoOrderError as error:
            return None, [f"No breakdown by seen and unseen items: {error}"]
    warm_H = prepared.split.train.popularity_I()[full.item_H] > 0
    warm, unseen = (
        EvaluatedPart(
            users=len(np.unique(rows.user_H)),
            held_out=len(rows),
            full=_values(rows, metrics, ties) if len(rows) else {},
        )
        for rows in (full.where(warm_H), full.where(~warm_H))
    )
    return EvaluatedBreakdown(warm=warm, unseen=unseen), notes


def _values(ranks: Ranks, metrics: Sequence[str], ties: Ties) -> dict[str, float]:
    return {name: metric(ranks, name, ties) for name in metrics}
