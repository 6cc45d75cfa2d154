"""A sweep on disk: all numbers as CSV, validation and test over the grid as a chart."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.experiment.figures import (
    caption,
    colour,
    legend_outside,
    marker,
    new_figure,
    save_figure,
    spans_decades,
)
from tacit.experiment.grid import Axis
from tacit.experiment.names import data_title
from tacit.experiment.sweep_map import sweep_map
from tacit.experiment.sweep_result import RANKING_WORDS, Setting, Sweep
from tacit.files import write_text


def write_sweep(table: Sweep, out: Path) -> list[Path]:
    """`sweep.csv`, `sweep.png` and `sweep.svg` in `out`; two fields make a map, `sweep-map.*`."""
    write_text(out / "sweep.csv", as_csv(table))
    written = [out / "sweep.csv", *save_figure(sweep_chart(table), out / "sweep")]
    if len(table.axes) == 2:
        written += save_figure(sweep_map(table), out / "sweep-map")
    return written


def as_csv(table: Sweep) -> str:
    """One line per setting, in the order of the grid.

    >>> test, privacy = {"full": {"HR@10": 0.3}}, "no guarantee"
    >>> row = Setting(("1",), 0.2, None, test, (7, 9), ("a", "b"), privacy)
    >>> axis = Axis("local.epochs", ("1",))
    >>> one = Sweep("m", "few", "clean", True, "", "HR@10", "full", (axis,), 2, (row,), 0, ())
    >>> header, line = as_csv(one).splitlines()
    >>> header
    'local.epochs,validation HR@10 full,deviation over seeds,test HR@10 full,selected rounds,\
chosen,privacy,runs'
    >>> line
    '1,0.2,,0.3,7 9,yes,no guarantee,a b'
    """
    measured = [(kind, name) for kind, values in _some_test(table).items() for name in values]
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(
        [
            *(axis.path for axis in table.axes),
            f"validation {table.metric} {table.ranking}",
            "deviation over seeds",
            *(f"test {name} {kind}" for kind, name in measured),
            "selected rounds",
            "chosen",
            "privacy",
            "runs",
        ]
    )
    for place, row in enumerate(table.rows):
        writer.writerow(
            [
                *row.values,
                row.validation,
                row.deviation,
                *(None if row.test is None else row.test[kind][name] for kind, name in measured),
                " ".join(map(str, row.selected_rounds)),
                "yes" if place == table.chosen else "",
                row.privacy,
                " ".join(row.runs),
            ]
        )
    return stream.getvalue()


def sweep_chart(table: Sweep) -> Figure:
    """Validation and, beside it, test: lines over one axis, a line for each value of the others."""
    across = _across(table)
    figure, panels = new_figure(2, width=4.4, height=3.8)
    panels[1].sharey(panels[0])
    lines = _lines(table, across)
    for place, (label, rows) in enumerate(lines.items()):
        for panel, part in zip(panels, ("validation", "test"), strict=True):
            _line(panel, table, across, rows, part, place, label)
    for panel, part in zip(panels, ("validation", "test"), strict=True):
        _dress(panel, table, across)
        panel.set_title(f"{part}, {RANKING_WORDS[table.ranking]}", fontsize=11)
    panels[0].set_ylabel(table.metric)
    if len(lines) > 1:
        others = (axis.path for place, axis in enumerate(table.axes) if place != across)
        legend_outside(figure, panels[0], title=", ".join(others))
    clean = "" if table.clean else f" [{table.protocol} protocol: not comparable with clean]"
    figure.suptitle(f"{table.method} on {data_title(table.dataset)}{clean}", fontsize=12)
    bars = f" Bars: standard deviation over {table.seeds} seeds." if table.seeds > 1 else ""
    caption(
        figure,
        f"The ring marks the setting that validation prefers; test had no say in it.{bars} "
        f"Privacy: {table.privacy}.",
    )
    return figure


def _some_test(table: Sweep) -> dict[str, dict[str, float]]:
    found = next((row.test for row in table.rows if row.test is not None), {})
    return {kind: dict(values) for kind, values in found.items()}


def _across(table: Sweep) -> int:
    """The place of the axis that runs along x: of the numeric ones that with most values."""

    def weight(place: int) -> tuple[bool, int, int]:
        axis = table.axes[place]
        return axis.numbers is not None, len(axis.values), -place

    return max(range(len(table.axes)), key=weight)


def _lines(table: Sweep, across: int) -> dict[str, list[Setting]]:
    lines: dict[str, list[Setting]] = {}
    for row in table.rows:
        others = [value for place, value in enumerate(row.values) if place != across]
        lines.setdefault(", ".join(others) or table.method, []).append(row)
    return lines


def _place(axis: Axis, value: str) -> float:
    """Where a value stands: numbers at themselves, words one after another."""
    return float(value) if axis.numbers is not None else float(axis.values.index(value))


def _value(table: Sweep, row: Setting, part: str) -> float | None:
    if part == "validation" or row.test is None:
        return row.validation
    return row.test[table.ranking][table.metric]


def _line(
    panel: Axes, table: Sweep, across: int, rows: list[Setting], part: str, place: int, label: str
) -> None:
    axis = table.axes[across]
    known = [row for row in rows if row.validation is not None]
    known.sort(key=lambda row: _place(axis, row.values[across]))
    x = [_place(axis, row.values[across]) for row in known]
    y = [_value(table, row, part) or 0.0 for row in known]
    style: dict[str, Any] = {"color": colour(place), "marker": marker(place), "label": label}
    if part == "validation" and table.seeds > 1:
        panel.errorbar(x, y, [row.deviation or 0.0 for row in known], capsize=3, **style)
    else:
        panel.plot(x, y, **style)
    chosen = table.rows[table.chosen]
    if chosen in known:
        at = known.index(chosen)
        panel.plot(
            x[at], y[at], "o", markersize=15, markerfacecolor="none", markeredgecolor="#202020"
        )


def _dress(panel: Axes, table: Sweep, across: int) -> None:
    axis = table.axes[across]
    panel.set_xlabel(axis.path)
    panel.margins(x=0.08, y=0.15)
    if axis.numbers is None:
        panel.set_xticks(range(len(axis.values)), axis.values)
        return
    # the values that were tried, as they were written: nothing between them was
    known = {row.values[across] for row in table.rows if row.validation is not None}
    values = sorted(known, key=float)
    numbers = [float(value) for value in values]
    if spans_decades(numbers):
        panel.set_xscale("log")
    panel.set_xticks(numbers, values, rotation=30)
    panel.set_xticks([], minor=True)
