"""The data of an experiment, loaded and split as its protocol says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit.core.method import Method
from tacit.data.dataset import Dataset
from tacit.data.digest import DataDigest, digest_of
from tacit.data.load import load
from tacit.data.split import BY_LABELS, cautions, few_evaluated, part_of_rows, split_dataset
from tacit.data.views import Split
from tacit.experiment.spec import Experiment


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset, its three views, and the part in which each of its interactions lies."""

    dataset: Dataset
    split: Split
    part_N: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))

    @cached_property
    def digest(self) -> DataDigest:
        """What this data is, in a few digests.

        >>> from tacit.experiment.resolve import resolve
        >>> prepare(resolve("fedmf")).digest.n_parts
        (6858, 300, 300)
        """
        return digest_of(self.dataset, self.part_N)


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
    part_N = part_of_rows(dataset, experiment.protocol.split)
    split = split_dataset(dataset, experiment.protocol, part_N)
    notes = (*dataset.notes, *cautions(dataset, experiment.protocol, split))
    return Prepared(replace(dataset, notes=notes), split, part_N)


def tables_read(experiment: Experiment, dataset: Dataset) -> tuple[str, ...]:
    """The feature tables that a method reads; of a method that does not say so, all there are.

    >>> from tacit.experiment.resolve import resolve
    >>> data = prepare(resolve("fedmf")).dataset
    >>> tables_read(resolve("fedmf"), data), tables_read(resolve("fedvbpr"), data)
    ((), ('text', 'image'))
    """
    method, content = experiment.method, dataset.modalities
    if not isinstance(method, Method):
        return tuple(content)
    named = tuple(method.items.content(content))
    if method.cold is not None and method.cold.features.kind == "content":
        named += method.cold.features.modalities
    return tuple(dict.fromkeys(named))
