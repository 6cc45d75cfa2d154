"""A sweep over two fields as a map: one cell for each pair of values, validation beside test."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tacit.experiment.figures import caption, new_figure
from tacit.experiment.grid import Axis
from tacit.experiment.names import data_title
from tacit.experiment.sweep_result import RANKING_WORDS, Sweep

PARTS = ("validation", "test")
SHADES = "cividis"  # colour-blind readers see the same order
ABSENT = "#E8E8E8"


def sweep_map(table: Sweep) -> Figure:
    """The first field runs across, the second upwards; darker is lower, and cells hold numbers.

    >>> from tacit.experiment.sweep_result import Setting
    >>> axes = (Axis("rate", ("1", "2")), Axis("decay", ("0",)))
    >>> test = {"full": {"HR@10": 0.1}}
    >>> rows = tuple(Setting((x, "0"), 0.2, None, test, (1,), ("a",), "none") for x in ("1", "2"))
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
        _dress(panel, table)
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


def _dress(panel: Axes, table: Sweep) -> None:
    across, up = table.axes
    panel.set_xticks(range(len(across.values)), _order(across), rotation=30)
    panel.set_yticks(range(len(up.values)), _order(up))
    panel.set_xlabel(across.path)
    panel.set_ylabel(up.path)
    x, y = table.rows[table.chosen].values
    corner = (_order(across).index(x) - 0.5, _order(up).index(y) - 0.5)
    panel.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#D55E00", linewidth=3))
