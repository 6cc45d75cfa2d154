"""Nodes for tests: the people of a dataset on devices of their own, or some of them on one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.dataset import Dataset
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import document
from tacit.node.catalogue import PRESENT, Catalogue
from tacit.node.device import Node
from tacit.wire.messages import RunPlan

KEY = bytes(range(32))  # of all nodes in tests


def catalogue_of(dataset: Dataset, items: int | None = None) -> Catalogue:
    """The catalogue of a dataset with its content, or of its first items.

    >>> from tacit.testing.synthetic import ragged
    >>> len(catalogue_of(ragged(), items=7))
    7
    """
    rows, arrays = dataset.interactions, dict[str, np.ndarray]()
    for name, table in dataset.modalities.items():
        arrays |= {name: table.value_IF[:items], name + PRESENT: table.present_I[:items]}
    titles = dataset.texts.get("title", ())
    return Catalogue(rows.items[:items], titles[:items], arrays)


def nodes_of(
    dataset: Dataset,
    folder: Path,
    groups: Iterable[Sequence[int]] | None = None,
    **settings: Any,
) -> list[Node]:
    """One node for each person of a dataset, in their order, or for each group of them. Histories
    are recorded in the order of the rows."""
    rows, catalogue = dataset.interactions, catalogue_of(dataset)
    nodes = []
    for number, group in enumerate(groups or [[user] for user in range(rows.n_users)]):
        names = [rows.users[user] for user in group]
        where = folder / f"node-{number}"
        node = Node.init(where, KEY, catalogue, users=names, number=number, **settings)
        own = np.flatnonzero(np.isin(rows.user_N, group)).tolist()
        node.record_all(
            (rows.items[rows.item_N[n]], _time(rows.time_N, n), rows.users[rows.user_N[n]])
            for n in own
        )
        nodes.append(node)
    return nodes


def _time(time_N: np.ndarray | None, row: int) -> int | float:
    """The time of a row; without times rows follow each other."""
    found: int | float = row if time_N is None else time_N[row].item()
    return found


def plan_of(experiment: Experiment, dataset: Dataset, **others: Any) -> RunPlan:
    """The plan of a run of an experiment on the people of a dataset."""
    digest, users = catalogue_of(dataset).digest, dataset.interactions.n_users
    return RunPlan(document(experiment), digest, users, experiment.rounds, **others)
