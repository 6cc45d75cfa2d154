"""Other metrics of a finished run, from its saved ranks: nothing is trained again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranks import Ranks, Ties
from tacit.experiment.data_record import OLD, NoOrderError, require_same
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.experiment.result import read_ranks

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


def evaluate(
    folder: str | Path,
    metrics: Sequence[str] = METRICS_SHOWN,
    ties: Ties | None = None,
) -> dict[str, Any]:
    """Metrics of both rankings, and of warm and unseen items where the data is at hand; data that
    has changed since the run is refused.

    Without `ties` the rule of the run's protocol applies.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     result = run(resolve("popularity"), Path(place) / "one")
    ...     again = evaluate(Path(place) / "one", ["HR@10", "MAP@20"])
    >>> again["metrics"]["full"]["HR@10"] == result["metrics"]["full"]["HR@10"]
    True
    """
    files = RunFolder(Path(folder))
    result, experiment = files.result(), files.experiment()
    test = read_ranks(files.verified(files.ranks_file))
    rule = ties or experiment.protocol.ties
    if rule not in ("expected", "pessimistic"):
        raise TacitError(f"ties is {rule!r}; it must be 'expected' or 'pessimistic'.")
    if not metrics:
        raise TacitError("No metric is named; give for instance --metrics HR@10,NDCG@10.")
    answer: dict[str, Any] = {
        key: result[key]
        for key in ("method", "plugins", "dataset", "protocol", "clean", "split", "seed", "privacy")
    }
    answer |= {
        "selected_round": result["selected_round"],
        "run": str(folder),
        "ties": rule,
        "metrics": {
            "full": _values(test.full, metrics, rule),
            "sampled99": _values(test.sampled, metrics, rule),
        },
    }
    notes = [OLD] if files.is_old else []
    try:
        prepared = prepare(experiment)
    except TacitError as error:  # it is not here, so there is nothing to compare with
        return answer | {"breakdown": None, "notes": [f"No breakdown by warmth: {error}", *notes]}
    record = require_same(experiment, files, result, prepared)
    if record is not None:
        try:
            prepared = record.arranged(prepared, experiment.protocol)
        except NoOrderError as error:
            said = [f"No breakdown by warmth: {error}"]
            return answer | {"breakdown": None, "notes": said}
    warm_H = prepared.split.train.popularity_I()[test.full.item_H] > 0
    breakdown = {
        name: {
            "users": len(np.unique(rows.user_H)),
            "held_out": len(rows),
            "full": _values(rows, metrics, rule) if len(rows) else {},
        }
        for name, rows in (("warm", test.full.where(warm_H)), ("unseen", test.full.where(~warm_H)))
    }
    return answer | {"breakdown": breakdown, "notes": notes}


def _values(ranks: Ranks, metrics: Sequence[str], ties: Ties) -> dict[str, float]:
    return {name: metric(ranks, name, ties) for name in metrics}
