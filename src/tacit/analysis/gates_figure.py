"""Histograms of users' mean gates, by groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.analysis.finished import FinishedRun
from tacit.analysis.gate_means import GateMeans
from tacit.analysis.user_groups import POPULAR, ends, portion
from tacit.experiment.figures import caption, colour, legend_outside, new_figure

EXTREMES = (100, 300, 500)  # distinct users and as many followers
ACTIVITY = (0.1, 0.2, 0.3)  # cold users and as many warm ones


def gates_figure(
    runs: Sequence[FinishedRun],
    found: Sequence[GateMeans],
    by_share: np.ndarray,
    by_activity: np.ndarray,
) -> Figure:
    figure, panels = new_figure(2 * len(runs), width=4.4, height=3.6, columns=2)
    share = dict(zip(("distinct", "followers"), ends(by_share, EXTREMES[0]), strict=True))
    n = portion(ACTIVITY[-1], len(by_activity))
    warmth = dict(zip(("cold", "warm"), ends(by_activity, n), strict=True))
    for place, (run, means) in enumerate(zip(runs, found, strict=True)):
        left, right = panels[2 * place : 2 * place + 2]
        _histogram(left, means.value_popular_U, share, 0)
        _histogram(right, means.value_all_U, warmth, 2)
        # the run's name may be long: it stands in a line of its own above the pair
        left.set_title(f"{run.name}\npopular items", fontsize=11, loc="left")
        right.set_title("all items", fontsize=11, loc="left")
    legend_outside(figure, panels[0], panels[1])
    figure.suptitle(runs[0].place, fontsize=11)
    caption(
        figure,
        f"Each user counts once, with the mean of its gates. Popular: top {POPULAR:.0%} by train "
        f"count. {len(share['distinct'])} distinct users and followers; cold and warm: "
        f"{ACTIVITY[-1]:.0%} each. Dashed lines are the groups' means; gates begin at 0.5.",
    )
    return figure


def _histogram(
    panel: Axes, value_U: np.ndarray, members: dict[str, np.ndarray], first: int
) -> None:
    shown = np.concatenate([value_U[user_G] for user_G in members.values()])
    low, high = float(shown.min()), float(shown.max())
    margin = (high - low) / 30 or 0.01
    panel.hist(
        [value_U[user_G] for user_G in members.values()],
        bins=np.linspace(low - margin, high + margin, 16).tolist(),
        color=[colour(first + place) for place in range(len(members))],
        label=list(members),
    )
    for place, user_G in enumerate(members.values(), first):
        panel.axvline(float(value_U[user_G].mean()), color=colour(place), linestyle="--")
    panel.set_xlabel("mean gate of a user")
    panel.set_ylabel("users")
    panel.ticklabel_format(axis="x", useOffset=False)
    panel.tick_params(axis="x", rotation=30)
