"""All measures of several runs at a glance: the larger a shape, the more the attacker learnt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.projections.polar import PolarAxes

from tacit.attack.inversion import ONE, Inversion
from tacit.experiment.figures import caption, colour, legend_outside, marker

MEASURES = ("MSE", "MAE", "cosine", "Pearson", "structure")  # in the order of `Measures`


def radar_figure(found: Mapping[str, Inversion]) -> Figure:
    """One panel for each attacker; a run's colour is one, and the mean of its draws is dashed.

    >>> import numpy as np
    >>> from tacit.attack.inversion import invert
    >>> content_CF = np.random.default_rng(0).normal(size=(60, 3))
    >>> figure = radar_figure({"a run": invert(content_CF[None], content_CF, seeds=1)})
    >>> [panel.get_title() for panel in figure.axes]
    ['ridge', 'perceptron']
    """
    attackers = list(dict.fromkeys(a.attacker for one in found.values() for a in one.attacks))
    # the layout takes the names of the axes for shorter than they are
    layout = ConstrainedLayoutEngine(w_pad=0.25, h_pad=0.08)
    legend = 1.7 + 0.09 * max(map(len, found))  # inches
    figure = Figure(figsize=(5.0 * len(attackers) + legend, 5.0), layout=layout)
    panels = [
        figure.add_subplot(1, len(attackers), place + 1, projection="polar")
        for place in range(len(attackers))
    ]
    turns = [2 * math.pi * place / len(MEASURES) for place in range(len(MEASURES))]
    for panel, attacker in zip(panels, attackers, strict=True):
        assert isinstance(panel, PolarAxes)
        _dress(panel, attacker, turns)
        for place, (name, one) in enumerate(found.items()):
            for attempt in one.attacks:
                if attempt.attacker != attacker:
                    continue
                # a shape has no room for less than nothing; the table has the numbers
                values = [max(0.0, value) for value in astuple(one.leakage(attempt))]
                panel.plot(
                    [*turns, turns[0]],
                    [*values, values[0]],
                    color=colour(place),
                    marker=marker(place),
                    markersize=4,
                    linestyle="-" if attempt.view == ONE else "--",
                    label=f"{name}, {attempt.view}",
                )
    legend_outside(figure, panels[0])
    caption(
        figure,
        "Centre: nothing was learnt; rim: all is known. MSE and MAE: the part of the floor's error "
        "that is gone; structure: the part of the error with shuffled embeddings that is gone. "
        "Less than nothing is drawn as nothing.",
    )
    return figure


def _dress(panel: PolarAxes, attacker: str, turns: list[float]) -> None:
    panel.set_theta_zero_location("N")
    panel.set_theta_direction(-1)
    panel.set_xticks(turns, MEASURES)
    for turn, label in zip(turns, panel.get_xticklabels(), strict=True):
        side = math.sin(turn)
        label.set_horizontalalignment(
            "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
        )
    panel.tick_params(axis="x", pad=3)
    panel.set_ylim(0, 1)
    panel.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "0.5", "", "1"], color="#606060", fontsize=9)
    panel.set_rlabel_position(36)  # between two axes
    panel.grid(color="#D8D8D8", linewidth=0.8)
    panel.spines["polar"].set_color("#B0B0B0")
    panel.set_title(attacker, fontsize=11, pad=14)
