"""The data of an experiment, loaded and split as its protocol says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tacit.data.dataset import Dataset
from tacit.data.digest import DataDigest, digest_of
from tacit.data.split import cautions, part_of_rows, split_dataset
from tacit.data.views import Split
from tacit.experiment.spec import Experiment


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset, its three views, and the part in which each of its interactions lies."""

    dataset: Dataset
    split: Split
    part_N: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))

    def __repr__(self) -> str:
        return f"Prepared({self.dataset}, {self.split})"

    @cached_property
    def digest(self) -> DataDigest:
        """What this data is, in a few digests.

        >>> from tacit.experiment.resolve import resolve
        >>> prepare(resolve("fedmf")).digest.n_parts
        (6858, 300, 300)
        """
        return digest_of(self.dataset, self.part_N)


def prepare(experiment: Experiment) -> Prepared:
    """Load and split; everything that is wrong with the data is said here, before training.

    >>> from tacit.experiment.resolve import resolve
    >>> prepare(resolve("fedmf")).split.counts["users"]
    300
    """
    dataset = experiment.data.load(experiment.protocol.duplicates)
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
    method, content = experiment.method.composed, dataset.modalities
    if method is None:
        return tuple(content)
    named = tuple(method.items.content(content))
    if method.cold is not None and method.cold.features.kind == "content":
        named += method.cold.features.modalities
    return tuple(dict.fromkeys(named))
