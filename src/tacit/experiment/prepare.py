"""The data of an experiment, loaded and split as its protocol says."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.data.dataset import Dataset
from tacit.data.load import load
from tacit.data.split import split_dataset
from tacit.data.views import Split
from tacit.experiment.spec import Experiment


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset and its three views."""

    dataset: Dataset
    split: Split


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
        duplicates=experiment.protocol.duplicates,
    )
    return Prepared(dataset, split_dataset(dataset, experiment.protocol))
