"""One method over a grid of settings; validation chooses, test values only stand beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.evaluation.significance import Spread
from tacit.experiment.data_record import DataNow, require_one_data
from tacit.experiment.folder import RunFolder
from tacit.experiment.interpretation import guarantee_words, sampled_notes
from tacit.experiment.prepare import cautions_of
from tacit.experiment.result import read_ranks
from tacit.experiment.run import Watcher
from tacit.experiment.spec import Experiment
from tacit.study.compare import SHOWN, finish, measured
from tacit.study.grid import (
    Axis,
    Setting,
    Sweep,
    axis_of,
    experiments_of,
    point_folder,
    point_text,
    points,
    shown_metrics,
)
from tacit.study.sweep_files import write_sweep


def sweep(
    method: str,
    over: Sequence[str],
    out: str | Path,
    *,
    seeds: int = 1,
    threads: int = 1,
    watch: Watcher | None = None,
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
    if seeds < 1:
        raise TacitError(f"seeds is {seeds}; run at least 1.")
    if not over:
        raise TacitError("Nothing to sweep over; give at least one --over part.field=a,b,c.")
    axes = tuple(axis_of(text) for text in over)
    grid = experiments_of(method, axes, seeds, settings)
    rows, notes = [], []
    data = DataNow()
    first: dict[Any, tuple[str, dict[str, Any]]] = {}  # of each data and protocol in the grid
    for point, experiments in zip(points(axes), grid, strict=True):
        place = Path(out) / point_folder(axes, point)
        folders = [place / f"seed{experiment.seed}" for experiment in experiments]
        try:
            for experiment, folder in zip(experiments, folders, strict=True):
                finish(experiment, folder, threads, watch, data)
                here = (f"{point_text(axes, point)}, seed {experiment.seed}", _result(folder))
                before = first.setdefault((experiment.data, experiment.protocol), here)
                require_one_data((before[0], here[0]), (before[1], here[1]))
        except DivergedError:
            notes.append(
                f"{point_text(axes, point)} diverged with seed {experiment.seed}, so it has no "
                "value."
            )
            rows.append(Setting(point, None, None, None, (), (), None))
        else:
            rows.append(_setting(point, experiments, folders))
    one = _first_result(rows)
    table = _sweep(grid[0][0], one, axes, seeds, rows, notes)
    write_sweep(table, Path(out))
    return table


def _setting(
    point: tuple[str, ...], experiments: Sequence[Experiment], folders: Sequence[Path]
) -> Setting:
    protocol = experiments[0].protocol
    selected_by = protocol.select_metric
    names = tuple(dict.fromkeys((selected_by, *shown_metrics(selected_by), *SHOWN)))
    results = [_result(folder) for folder in folders]
    spread = Spread.of([result["test_released"]["validation_value"] for result in results])
    files = [RunFolder(folder) for folder in folders]
    ranks = [read_ranks(one.verified(one.ranks_file)) for one in files]
    test = [measured(one, names, protocol.ties) for one in ranks]
    return Setting(
        point,
        spread.mean,
        spread.deviation,
        {
            kind: {name: float(np.mean([values[kind][name] for values in test])) for name in names}
            for kind in test[0]
        },
        tuple(result["selected_round"] for result in results),
        tuple(str(folder) for folder in folders),
        guarantee_words(results[0]["privacy"]),
    )


def _result(folder: Path) -> dict[str, Any]:
    return RunFolder(folder).result()


def _first_result(rows: Sequence[Setting]) -> Mapping[str, Any] | None:
    runs = [run for row in rows for run in row.runs]
    return _result(Path(runs[0])) if runs else None


def _sweep(
    experiment: Experiment,
    result: Mapping[str, Any] | None,
    axes: tuple[Axis, ...],
    seeds: int,
    rows: Sequence[Setting],
    notes: Sequence[str],
) -> Sweep:
    if result is None:
        raise TacitError("Every setting diverged; sweep over smaller rates.")
    values = [float("-inf") if row.validation is None else row.validation for row in rows]
    chosen = int(np.argmax(values))  # the first of equals
    said = [*cautions_of(result), *notes]
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
        split=result["split"],
        metric=protocol.select_metric,
        ranking="full" if protocol.select_on == "full" else "sampled99",
        axes=axes,
        seeds=seeds,
        rows=tuple(rows),
        chosen=chosen,
        notes=tuple(said),
    )
