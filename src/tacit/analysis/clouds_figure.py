"""Two clouds of rows, a panel for each snapshot, all on the same axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.analysis.projection import PROJECTIONS
from tacit.experiment.amounts import DASH
from tacit.experiment.figures import GREY, PALETTE, caption, legend_outside, new_figure

COLUMNS = 3


def clouds_figure(
    names: Sequence[str],
    places: Sequence[tuple[np.ndarray, np.ndarray]],
    distances: Sequence[tuple[float | None, float | None]],
    title: str,
    share: float | None,
) -> Figure:
    """Places of warm and cold rows in each panel, with `(apart, spread ratio)` below it; `share` of
    the variance is what the plane shows.

    >>> place_I2 = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> figure = clouds_figure(["round 1"], [(place_I2, place_I2 + 1)], [(0.5, 1.0)], "Few", 0.9)
    >>> figure.axes[0].get_xlabel().splitlines()[-1]
    'apart 0.50, spread ratio 1.00'
    """
    across, up = PROJECTIONS["pca"].axes
    alone = len(names) == 1
    figure, panels = new_figure(
        len(names), width=6.4 if alone else 4.0, height=4.2, columns=COLUMNS
    )
    low_2, high_2 = _limits([one for both in places for one in both])
    for number, (panel, name, both, distance) in enumerate(
        zip(panels, names, places, distances, strict=True)
    ):
        _draw(panel, *both)
        panel.set_title(name, fontsize=11)
        apart, ratio = (DASH if one is None else f"{one:.2f}" for one in distance)
        panel.set_xlabel(f"{across}\napart {apart}, spread ratio {ratio}")
        panel.set_xlim(low_2[0], high_2[0])
        panel.set_ylim(low_2[1], high_2[1])
        if number % COLUMNS == 0:
            panel.set_ylabel(up)
    legend_outside(figure, panels[0])
    figure.suptitle(title, fontsize=12)
    shown = "" if share is None else f" ({100 * share:.0f} % of the variance)"
    caption(
        figure,
        f"One plane for all panels, fitted to both clouds of the last one{shown}. Apart: distance "
        "of the mean rows in warm spreads; spread ratio: cold over warm; both in all dimensions.",
    )
    return figure


def _limits(places: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The corners of everything, and some room around it."""
    every_I2 = np.concatenate(list(places))
    low_2, high_2 = every_I2.min(axis=0), every_I2.max(axis=0)
    room_2 = np.where(high_2 > low_2, 0.05 * (high_2 - low_2), 1.0)
    return low_2 - room_2, high_2 + room_2


def _draw(panel: Axes, warm_W2: np.ndarray, cold_C2: np.ndarray) -> None:
    clouds = (("warm", warm_W2, GREY, "#202020", 1), ("cold", cold_C2, PALETTE[1], "#8A3D00", 3))
    for kind, place_I2, shade, _, layer in clouds:
        panel.scatter(
            place_I2[:, 0],
            place_I2[:, 1],
            s=14,
            color=shade,
            alpha=0.5,
            linewidths=0,
            label=kind,
            zorder=layer,
            rasterized=True,  # tens of thousands of points would make an SVG that nobody can open
        )
    for kind, place_I2, _, shade, _ in clouds:
        x, y = place_I2.mean(axis=0)
        # thin, long and under the cold rows, which may all lie in one place
        panel.scatter(
            [x],
            [y],
            s=180,
            marker="+",
            color=shade,
            linewidths=1.6,
            label=f"mean of {kind}",
            zorder=2,
        )
