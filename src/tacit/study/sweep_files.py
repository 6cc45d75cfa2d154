"""A sweep on disk: all numbers as CSV, charts and maps of validation and test over the grid."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tacit.experiment.charts import (
    caption,
    colour,
    legend_outside,
    marker,
    new_figure,
    save_figure,
    spans_decades,
)
from tacit.experiment.names import data_title
from tacit.files import write_text
from tacit.study.sweep import RANKING_WORDS, Axis, Sweep, SweepPoint
from tacit.study.writer import as_csv as table_as_csv

# A sweep over two fields as a map: one cell for each pair of values, validation beside test.

PARTS = ("validation", "test")
SHADES = "cividis"  # colour-blind readers see the same order
ABSENT = "#E8E8E8"


def sweep_map(table: Sweep) -> Figure:
    """The first field runs across, the second upwards; darker is lower, and cells hold numbers.

    >>> from tacit.study.sweep import SweepPoint
    >>> axes = (Axis("rate", ("1", "2")), Axis("decay", ("0",)))
    >>> test = {"full": {"HR@10": 0.1}}
    >>> rest = (0.2, None, test, (1,), ("a",), "none")
    >>> rows = tuple(SweepPoint((x, "0"), *rest) for x in ("1", "2"))
    >>> one = Sweep("m", "few", "clean", True, "", "HR@10", "full", axes, 1, rows, 0, ())
    >>> [panel.get_title() for panel in sweep_map(one).axes[:2]]
    ['validation, full ranking', 'test, full ranking']
    """
    values = {part: cells(table, part) for part in PARTS}
    known = [value for cell_YX in values.values() for value in cell_YX.flat if value == value]
    scale = Normalize(min(known, default=0.0), max(known, default=1.0))
    across, up = table.axes
    figure, panels = new_figure(
        2,
        width=2.2 + 0.75 * max(3, len(across.values)),
        height=1.9 + 0.5 * max(3, len(up.values)),
    )
    for panel, (part, cell_YX) in zip(panels, values.items(), strict=True):
        _cells(panel, cell_YX, scale)
        _dress_map(panel, table)
        panel.set_title(f"{part}, {RANKING_WORDS[table.ranking]}", fontsize=11)
    figure.colorbar(ScalarMappable(scale, SHADES), ax=panels, label=table.metric, shrink=0.9)
    clean = "" if table.clean else f" [{table.protocol} protocol: not comparable with clean]"
    figure.suptitle(f"{table.method} on {data_title(table.dataset)}{clean}", fontsize=12)
    seeds = f" Means of {table.seeds} seeds." if table.seeds > 1 else " One seed each."
    caption(
        figure,
        f"The frame marks the setting that validation prefers; test had no say in it.{seeds} "
        f"Privacy: {table.privacy}.",
    )
    return figure


def cells(table: Sweep, part: str) -> np.ndarray:
    """Values by second and first field, both in rising order; NaN where training diverged."""
    across, up = (_order(axis) for axis in table.axes)
    cell_YX = np.full((len(up), len(across)), np.nan)
    for row in table.rows:
        x, y = row.values
        value = row.validation
        if part == "test" and row.test is not None:
            value = row.test[table.ranking][table.metric]
        if value is not None:
            cell_YX[up.index(y), across.index(x)] = value
    return cell_YX


def _order(axis: Axis) -> list[str]:
    return list(axis.values) if axis.numbers is None else sorted(axis.values, key=float)


def _cells(panel: Axes, cell_YX: np.ndarray, scale: Normalize) -> None:
    shades = matplotlib.colormaps[SHADES].with_extremes(bad=ABSENT)
    panel.grid(visible=False)
    panel.imshow(cell_YX, cmap=shades, norm=scale, origin="lower", aspect="auto")
    for (y, x), value in np.ndenumerate(cell_YX):
        if math.isnan(value):
            panel.text(x, y, "diverged", ha="center", va="center", fontsize=9, color="#404040")
            continue
        dark = float(scale(value)) < 0.55
        shade = "#FFFFFF" if dark else "#000000"
        panel.text(x, y, f"{value:.4f}", ha="center", va="center", fontsize=9, color=shade)


def _dress_map(panel: Axes, table: Sweep) -> None:
    across, up = table.axes
    panel.set_xticks(range(len(across.values)), _order(across), rotation=30)
    panel.set_yticks(range(len(up.values)), _order(up))
    panel.set_xlabel(across.path)
    panel.set_ylabel(up.path)
    x, y = table.rows[table.chosen].values
    corner = (_order(across).index(x) - 0.5, _order(up).index(y) - 0.5)
    panel.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#D55E00", linewidth=3))


# A sweep on disk: all numbers as CSV, validation and test over the grid as a chart.


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
    >>> row = SweepPoint(("1",), 0.2, None, test, (7, 9), ("a", "b"), privacy)
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
    heading = [
        *(axis.path for axis in table.axes),
        f"validation {table.metric} {table.ranking}",
        "deviation over seeds",
        *(f"test {name} {kind}" for kind, name in measured),
        "selected rounds",
        "chosen",
        "privacy",
        "runs",
    ]
    rows = [
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
        for place, row in enumerate(table.rows)
    ]
    return table_as_csv(heading, rows)


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


def _lines(table: Sweep, across: int) -> dict[str, list[SweepPoint]]:
    lines: dict[str, list[SweepPoint]] = {}
    for row in table.rows:
        others = [value for place, value in enumerate(row.values) if place != across]
        lines.setdefault(", ".join(others) or table.method, []).append(row)
    return lines


def _place(axis: Axis, value: str) -> float:
    """Where a value stands: numbers at themselves, words one after another."""
    return float(value) if axis.numbers is not None else float(axis.values.index(value))


def _value(table: Sweep, row: SweepPoint, part: str) -> float | None:
    if part == "validation" or row.test is None:
        return row.validation
    return row.test[table.ranking][table.metric]


def _line(
    panel: Axes,
    table: Sweep,
    across: int,
    rows: list[SweepPoint],
    part: str,
    place: int,
    label: str,
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
