"""One method over a grid of settings; validation chooses, test values only stand beside it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError, argument
from tacit.evaluation.significance import Spread
from tacit.experiment.callbacks import Callbacks
from tacit.experiment.data_record import require_one_data
from tacit.experiment.folder import RunFolder
from tacit.experiment.interpretation import sampled_notes
from tacit.experiment.names import slug
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import NO_GUARANTEE
from tacit.experiment.resolve import resolve
from tacit.experiment.result import read_ranks
from tacit.experiment.spec import Experiment
from tacit.study.compare import SHOWN, measured
from tacit.study.search import best_of
from tacit.study.study import Study, Trial

# The grid of a sweep: which fields take which values, and the experiment at every point.

# Runs that differ here are no settings of one method: their numbers do not compare, or a flag of
# its own says how many there are.
NO_AXIS = {
    "data": "runs on different data do not compare; sweep each on its own with --data",
    "protocol": "runs under different protocols do not compare; sweep each with --protocol",
    "seed": "seeds are averaged at every setting; say how many with --seeds",
}


@dataclass(frozen=True)
class Axis:
    """One `--over path=a,b,c`: the values as they were written.

    >>> Axis("local.items.rate", ("0.1", "1e-2")).numbers
    (0.1, 0.01)
    """

    path: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers, if all of them are."""
        try:
            return tuple(float(value) for value in self.values)
        except ValueError:
            return None


def axis_of(text: str) -> Axis:
    """Read `path=a,b,c`; commas within brackets belong to a value.

    >>> axis_of("local.epochs=1,2").values, axis_of("backbone.layers=[8,4],[16]").values
    (('1', '2'), ('[8,4]', '[16]'))
    """
    path, equals, rest = text.partition("=")
    path = path.strip()
    values = tuple(value.strip() for value in re.split(r",(?![^\[]*\])", rest))
    if not path or not equals or not all(values):
        raise TacitError(
            f"Cannot read {argument('over').rstrip('=')} {text!r}; write "
            f"{argument('over', 'part.field=a,b,c')}."
        )
    first = path.split(".")[0]
    if first in NO_AXIS:
        raise TacitError(f"Cannot sweep over {path!r}: {NO_AXIS[first]}.")
    return Axis(path, values)


def points(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Every combination of values, the last axis fastest.

    >>> points([Axis("a", ("1", "2")), Axis("b", ("x",))])
    [('1', 'x'), ('2', 'x')]
    """
    return list(itertools.product(*(axis.values for axis in axes)))


def point_text(axes: Sequence[Axis], point: Sequence[str]) -> str:
    """A point as a person would write it.

    >>> point_text([Axis("a", ("1",)), Axis("b", ("x",))], ("1", "x"))
    'a=1, b=x'
    """
    return ", ".join(f"{axis.path}={value}" for axis, value in zip(axes, point, strict=True))


def point_folder(axes: Sequence[Axis], point: Sequence[str]) -> str:
    """A point as the name of a folder.

    >>> point_folder([Axis("a", ("1",)), Axis("b.c", ("[8,4]",))], ("1", "[8,4]"))
    'a=1+b.c=8_4'
    """
    pairs = zip(axes, point, strict=True)
    return "+".join(f"{slug(axis.path)}={slug(value)}" for axis, value in pairs)


def experiments_of(
    method: str, axes: Sequence[Axis], seeds: int, settings: dict[str, Any]
) -> list[tuple[Experiment, ...]]:
    """The experiments of every point, one per seed; all are checked before any is run.

    >>> grid = experiments_of("fedmf", [axis_of("local.epochs=1,2")], 1, {})
    >>> [one.method.local.epochs for (one,) in grid]
    [1, 2]
    """
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise TacitError(
                f"{argument('over', path)} is there twice; give all its values in one."
            )
    given = {key: value for key, value in settings.items() if key != "sets"}
    grid: dict[Experiment, tuple[str, ...]] = {}
    for point in points(axes):
        sets = [f"{path}={value}" for path, value in zip(paths, point, strict=True)]
        experiment = resolve(method, sets=[*settings.get("sets", ()), *sets], **given)
        if experiment in grid:
            raise TacitError(
                f"{point_text(axes, grid[experiment])} and {point_text(axes, point)} are the same "
                "setting; name it once."
            )
        grid[experiment] = point
    return [tuple(replace(one, seed=seed) for seed in range(seeds)) for one in grid]


# A sweep as data: one row per setting, and the one that validation prefers.

RANKING_WORDS = {"full": "full ranking", "sampled99": "99 sampled"}


def shown_metrics(selected_by: str) -> tuple[str, str]:
    """What a sweep shows of the test part, at the (first) cut-off of the metric that selects.

    >>> shown_metrics("NDCG@10"), shown_metrics("Recall@20+50+100")
    (('HR@10', 'NDCG@10'), ('Recall@20', 'NDCG@20'))
    """
    name, _, cutoffs = selected_by.partition("@")
    k = cutoffs.partition("+")[0]
    return f"{'Recall' if name == 'Recall' else 'HR'}@{k}", f"NDCG@{k}"


@dataclass(frozen=True, eq=False)
class SweepPoint:
    """One point of the grid, seeds averaged; without values where training diverged.

    >>> test = {"full": {"HR@10": 0.3}}
    >>> SweepPoint(("0.1",), 0.2, None, test, (7,), ("runs/one",), "no guarantee").validation
    0.2
    """

    values: tuple[str, ...]
    validation: float | None
    deviation: float | None  # over seeds
    test: Mapping[str, Mapping[str, float]] | None  # by ranking, then by metric
    selected_rounds: tuple[int, ...]
    runs: tuple[str, ...]
    privacy: str | None  # the guarantee that goes with the values, in words


@dataclass(frozen=True, eq=False)
class Sweep:
    """All settings in the order of the grid; `chosen` is the place of validation's choice.

    >>> axis, row = Axis("local.epochs", ("1",)), SweepPoint(("1",), 0.2, None, None, (), (), None)
    >>> one = Sweep("m", "few", "clean", True, "", "HR@10", "full", (axis,), 1, (row,), 0, ())
    >>> one.choice
    'local.epochs=1: the setting that validation prefers (HR@10, full ranking)'
    """

    method: str
    dataset: str
    protocol: str
    clean: bool
    split: str
    metric: str  # of selection
    ranking: str
    axes: tuple[Axis, ...]
    seeds: int
    rows: tuple[SweepPoint, ...]
    chosen: int
    notes: tuple[str, ...]

    @property
    def privacy(self) -> str:
        """The guarantees of all settings, in words; figures say it too. None of them covers what
        the choice of a setting tells."""
        told = "; ".join(dict.fromkeys(row.privacy for row in self.rows if row.privacy))
        promised = any(row.privacy not in (None, NO_GUARANTEE) for row in self.rows)
        return f"{told}; the choice among these settings is not covered" if promised else told

    @property
    def choice(self) -> str:
        """Which setting, chosen by what."""
        seeds = f", mean of {self.seeds} seeds" if self.seeds > 1 else ""
        return (
            f"{point_text(self.axes, self.rows[self.chosen].values)}: the setting that validation "
            f"prefers ({self.metric}, {RANKING_WORDS[self.ranking]}{seeds})"
        )


# Run the grid, choose on validation, then read the test values.


def sweep(
    method: str,
    over: Sequence[str],
    out: str | Path,
    *,
    seeds: int = 1,
    threads: int = 1,
    callbacks: Callbacks = (),
    **settings: Any,
) -> Sweep:
    """Run a method at every point of the grid `over` ("part.field=a,b,c", several make a product).

    Each run has its folder under `out`, finished ones are used again, and `sweep.csv`, `sweep.png`
    and `sweep.svg` are written there, with two fields also a map; `settings` are arguments of
    `resolve`. A setting that diverges stays in the table without a value.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = sweep("fedmf", ["local.epochs=1,2"], folder, rounds=2)
    >>> [row.values for row in table.rows], table.chosen in (0, 1)
    ([('1',), ('2',)], True)
    """
    from tacit.study.sweep_files import write_sweep

    if seeds < 1:
        raise TacitError(f"seeds is {seeds}; run at least 1.")
    if not over:
        raise TacitError(
            f"Nothing to sweep over; give at least one {argument('over', 'part.field=a,b,c')}."
        )
    axes = tuple(axis_of(text) for text in over)
    grid = experiments_of(method, axes, seeds, settings)
    trials = {
        point: [_trial(Path(out), axes, point, experiment) for experiment in experiments]
        for point, experiments in zip(points(axes), grid, strict=True)
    }
    study = Study([trial for several in trials.values() for trial in several])
    study.run(threads=threads, callbacks=callbacks, skip_diverged=True)
    records = {
        point: [trial.record for trial in several]
        for point, several in trials.items()
        if point not in study.diverged
    }
    if not records:
        raise TacitError("Every setting diverged; sweep over smaller rates.")
    _require_one_data(axes, trials, records)
    released = {
        point: Spread.of([record.test_released.validation_value for record in own])
        for point, own in records.items()
    }
    values = [released[point].mean if point in released else None for point in trials]
    chosen = best_of(values)
    assert chosen is not None  # some setting has a value
    rows = [
        _setting(point, trials[point], records[point], released[point])
        if point in records
        else SweepPoint(point, None, None, None, (), (), None)
        for point in trials
    ]
    notes = [
        f"{point_text(axes, point)} diverged with seed {trial.experiment.seed}, so it has no value."
        for point, trial in study.diverged.items()
    ]
    first = next(iter(records.values()))[0]
    table = _sweep(grid[0][0], first, axes, seeds, rows, chosen, notes)
    write_sweep(table, Path(out))
    return table


def _trial(out: Path, axes: Sequence[Axis], point: tuple[str, ...], one: Experiment) -> Trial:
    labels = {axis.path: value for axis, value in zip(axes, point, strict=True)}
    return Trial(labels, one, out / point_folder(axes, point) / f"seed{one.seed}")


def _require_one_data(
    axes: Sequence[Axis],
    trials: Mapping[tuple[str, ...], Sequence[Trial]],
    records: Mapping[tuple[str, ...], Sequence[RunRecord]],
) -> None:
    """All runs of one data and protocol in the grid were made on the same data."""
    first: dict[Any, tuple[str, RunRecord]] = {}
    for point, own in records.items():
        for trial, record in zip(trials[point], own, strict=True):
            one = trial.experiment
            here = (f"{point_text(axes, point)}, seed {one.seed}", record)
            before = first.setdefault((one.data, one.protocol), here)
            require_one_data((before[0], here[0]), (before[1], here[1]))


def _setting(
    point: tuple[str, ...],
    trials: Sequence[Trial],
    records: Sequence[RunRecord],
    validation: Spread,
) -> SweepPoint:
    protocol = trials[0].experiment.protocol
    selected_by = protocol.select_metric
    names = tuple(dict.fromkeys((selected_by, *shown_metrics(selected_by), *SHOWN)))
    files = [RunFolder(trial.folder) for trial in trials]
    ranks = [read_ranks(one.verified(one.ranks_file)) for one in files]
    test = [measured(one, names, protocol.ties) for one in ranks]
    return SweepPoint(
        point,
        validation.mean,
        validation.deviation,
        {
            kind: {name: float(np.mean([values[kind][name] for values in test])) for name in names}
            for kind in test[0]
        },
        tuple(record.selected_round for record in records),
        tuple(str(trial.folder) for trial in trials),
        "; ".join(dict.fromkeys(record.privacy.text for record in records)),
    )


def _sweep(
    experiment: Experiment,
    record: RunRecord,
    axes: tuple[Axis, ...],
    seeds: int,
    rows: Sequence[SweepPoint],
    chosen: int,
    notes: Sequence[str],
) -> Sweep:
    values = [row.validation for row in rows]
    said = [*record.cautions, *notes]
    tied = values.count(values[chosen]) > 1
    if tied:
        said.append("Several settings are equal on validation; the first of them is marked.")
    for place, axis in enumerate(axes):
        numbers = axis.numbers
        if tied or numbers is None or len(numbers) < 2:
            continue
        at = float(rows[chosen].values[place])
        if at in (min(numbers), max(numbers)):
            said.append(
                f"The choice lies at the edge of {axis.path}: a wider grid may hold a better one."
            )
    if seeds == 1:
        said.append("One seed each: how much a value depends on its seed is not known.")
    protocol = experiment.protocol
    said += sampled_notes(protocol.sampled)
    return Sweep(
        method=experiment.label,
        dataset=experiment.data.name,
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=record.split,
        metric=protocol.select_metric,
        ranking="full" if protocol.select_on == "full" else "sampled99",
        axes=axes,
        seeds=seeds,
        rows=tuple(rows),
        chosen=chosen,
        notes=tuple(said),
    )
