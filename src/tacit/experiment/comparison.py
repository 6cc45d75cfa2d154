"""A comparison as data: one row per method, tested user by user against one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError, nearest
from tacit.evaluation.metrics import metric as metric_of
from tacit.evaluation.ranking import Evaluation, rank
from tacit.evaluation.references import chance, popularity_scores
from tacit.evaluation.significance import (
    Interval,
    Spread,
    holm,
    paired_bootstrap,
    per_user_over_seeds,
)
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.experiment.result import read_ranks
from tacit.experiment.spec import Experiment

SHOWN = ("HR@10", "NDCG@10")
Values = Mapping[str, Mapping[str, float]]  # by ranking, then by metric


@dataclass(frozen=True, eq=False)
class Entrant:
    """A method with its runs, one per seed; folders hold them once they are finished."""

    name: str
    experiments: tuple[Experiment, ...]
    folders: tuple[Path, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One method: its value over users (seeds averaged), the spread over seeds, and the test."""

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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows in the order in which methods were named, and what stands beside all of them."""

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


def tabulate(entrants: Sequence[Entrant], metric: str, against: str) -> Comparison:
    """Read finished runs and compare them; `against` is "first", "best" or a method's name."""
    results = [[RunFolder(folder).result() for folder in e.folders] for e in entrants]
    first, protocol = results[0][0], entrants[0].experiments[0].protocol
    for entrant, own in zip(entrants, results, strict=True):
        if any(result["counts"] != first["counts"] for result in own):
            raise TacitError(
                f"{entrants[0].name} and {entrant.name} do not compare: the data has changed "
                "between their runs; run them again into another --out."
            )
    ranks = [[read_ranks(RunFolder(f).ranks_file) for f in e.folders] for e in entrants]
    values = []
    for several in ranks:
        user_E, value_E = per_user_over_seeds([r.full for r in several], metric, protocol.ties)
        values.append(value_E)
    base = choose(against, [e.name for e in entrants], [float(v.mean()) for v in values])
    tests = {
        e.name: paired_bootstrap(value_E, values[base])
        for place, (e, value_E) in enumerate(zip(entrants, values, strict=True))
        if place != base
    }
    adjusted = holm({name: test.p_value for name, test in tests.items()})
    names = tuple(dict.fromkeys((metric, *SHOWN)))
    rows = tuple(
        Row(
            name=entrant.name,
            value=float(value_E.mean()),
            spread=Spread.of([metric_of(r.full, metric, protocol.ties) for r in several]),
            metrics=_mean([measured(r, names, protocol.ties) for r in several]),
            difference=tests.get(entrant.name),
            p_holm=adjusted.get(entrant.name),
            seeds=tuple(e.seed for e in entrant.experiments),
            selected_rounds=tuple(result["selected_round"] for result in own),
            cost=own[0]["cost"],
            runs=tuple(str(folder) for folder in entrant.folders),
        )
        for entrant, several, value_E, own in zip(entrants, ranks, values, results, strict=True)
    )
    return Comparison(
        metric=metric,
        dataset=first["dataset"],
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=first["split"],
        against=entrants[base].name,
        users=len(user_E),
        rows=rows,
        reference=_references(first, entrants[0].experiments[0], names),
        notes=_notes(rows),
    )


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


def measured(evaluation: Evaluation, names: Sequence[str], ties: Any) -> Values:
    """Some metrics of both rankings."""
    return {
        "full": {name: metric_of(evaluation.full, name, ties) for name in names},
        "sampled99": {name: metric_of(evaluation.sampled, name, ties) for name in names},
    }


def _mean(several: Sequence[Values]) -> Values:
    return {
        kind: {name: float(np.mean([one[kind][name] for one in several])) for name in values}
        for kind, values in several[0].items()
    }


def _references(
    result: dict[str, Any], experiment: Experiment, names: Sequence[str]
) -> dict[str, Values]:
    """Popularity and chance: as the first run stored them, or computed if it did not."""
    stored = result["reference"]
    if all(name in stored["full"]["popularity"] for name in names):
        return {
            row: {kind: {n: stored[kind][row][n] for n in names} for kind in stored}
            for row in ("popularity", "chance")
        }
    split = prepare(experiment).split
    popular = rank(popularity_scores(split.train), split.test)
    return {
        "popularity": measured(popular, names, experiment.protocol.ties),
        "chance": measured(chance(split.test), names, "expected"),
    }


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    if all(len(row.seeds) == 1 for row in rows):
        notes.append("One seed each: how much a result depends on its seed is not known.")
    elif len({row.seeds for row in rows}) > 1:
        notes.append("The rows have different seeds.")
    return tuple(notes)
