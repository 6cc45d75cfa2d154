"""The data of an experiment, loaded and split as its protocol says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tacit.data.dataset import Dataset
from tacit.data.load import load
from tacit.data.split import BY_LABELS, cautions, few_evaluated, split_dataset
from tacit.data.views import Split
from tacit.experiment.spec import Experiment


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset and its three views."""

    dataset: Dataset
    split: Split


def cautions_of(result: Mapping[str, Any]) -> list[str]:
    """What must be known of the split of a finished run, wherever its numbers stand.

    >>> cautions_of({"notes": [], "counts": {"evaluated_users": 300}})
    []
    """
    few = few_evaluated(result["counts"]["evaluated_users"])
    return [*(note for note in result["notes"] if note == BY_LABELS), *([few] if few else [])]


def prepare(experiment: Experiment) -> Prepared:
    """Load and split; everything that is wrong with the data is said here, before training.

    >>> from tacit.experiment.resolve import resolve
    >>> prepare(resolve("fedmf")).split.counts["users"]
    300
    """
    spec = experiment.data
    dataset = load(
        spec.name,
        columns=dict(spec.columns) or None,
        min_user=spec.min_user,
        min_rating=spec.min_rating,
        core=spec.core,
        duplicates=experiment.protocol.duplicates,
    )
    split = split_dataset(dataset, experiment.protocol)
    notes = (*dataset.notes, *cautions(dataset, experiment.protocol, split))
    return Prepared(replace(dataset, notes=notes), split)
