"""A comparison as data: one row per method, tested user by user against one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.errors import TacitError, nearest
from tacit.evaluation.significance import Interval, Spread
from tacit.experiment.spec import Experiment

Values = Mapping[str, Mapping[str, float]]  # by ranking, then by metric


@dataclass(frozen=True, eq=False)
class Entrant:
    """A method with its runs, one per seed; folders hold them once they are finished.

    >>> Entrant("fedmf", (), ()).name
    'fedmf'
    """

    name: str
    experiments: tuple[Experiment, ...]
    folders: tuple[Path, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One method: its value over users (seeds averaged), the spread over seeds, and the test.

    >>> spread, privacy = Spread.of([0.1, 0.3]), "no guarantee"
    >>> row = Row("fedmf", 0.2, spread, {}, None, None, (0, 1), (5, 7), {}, (), privacy)
    >>> row.spread.mean
    0.2
    """

    name: str
    value: float
    spread: Spread
    metrics: Values
    difference: Interval | None  # this method minus the one it is tested against
    p_holm: float | None
    seeds: tuple[int, ...]
    selected_rounds: tuple[int, ...]
    cost: Mapping[str, int]
    runs: tuple[str, ...]
    privacy: str  # the guarantee that goes with the numbers, in words


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows in the order in which methods were named, and what stands beside all of them.

    >>> one = Comparison("HR@10", "few", "clean", True, "by time", "fedmf", 9, (), {}, ())
    >>> one.against
    'fedmf'
    """

    metric: str
    dataset: str
    protocol: str
    clean: bool
    split: str
    against: str
    users: int
    rows: tuple[Row, ...]
    reference: Mapping[str, Values]
    notes: tuple[str, ...]


def choose(against: str, names: Sequence[str], values: Sequence[float]) -> int:
    """Which row the others are tested against.

    >>> choose("best", ["a", "b"], [0.1, 0.2]), choose("a", ["a", "b"], [0.1, 0.2])
    (1, 0)
    """
    if against == "first":
        return 0
    if against == "best":
        return int(np.argmax(values))
    if against not in names:
        raise TacitError(
            f"Nothing here is called {against!r}; {nearest(against, [*names, 'first', 'best'])}"
        )
    return list(names).index(against)
