"""Router weights against activity, deviations by group, weights of inputs, and the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.analysis.finished import FinishedRun
from tacit.analysis.router_users import UserWeights
from tacit.analysis.separation import PREFERENCE
from tacit.experiment.figures import GREY, caption, colour, marker, new_figure
from tacit.experiment.prepare import Prepared

FIRST_INPUT = 3  # inputs have other colours than the first views


def router_figure(
    runs: Sequence[FinishedRun],
    found: Mapping[str, UserWeights],
    members: Mapping[str, np.ndarray],
    prepared: Prepared,
) -> Figure:
    """A row of panels for each run."""
    truth_U = prepared.dataset.truth.get(PREFERENCE)
    size_U = prepared.split.train.positives.size_U
    shown = {name: user_G for name, user_G in members.items() if name != "all"}
    routed = any(one.is_routed for one in found.values())
    across = (2 if routed else 0) + 1 + (truth_U is not None)
    columns = 2 if across == 4 and len(runs) == 1 else across
    figure, panels = new_figure(across * len(runs), width=5.2, height=4.2, columns=columns)
    for place, run in enumerate(runs):
        own = panels[across * place : across * (place + 1)]
        one, rest = found[run.name], own[2 if routed else 0 :]
        if one.is_routed:
            _against_activity(own[0], one, size_U, members)
            _deviations(own[1], one, shown)
        elif routed:
            for panel in own[:2]:
                panel.set_axis_off()
                panel.text(0.5, 0.5, "nothing is routed", ha="center", transform=panel.transAxes)
        _inputs(rest[0], one, shown)
        if truth_U is not None:
            _truth(rest[1], one, truth_U)
        # the run's name may be long: it stands in a line of its own above the row
        own[0].set_title(f"{run.name}\n{own[0].get_title(loc='left')}", fontsize=11, loc="left")
    figure.suptitle(runs[0].place, fontsize=12)
    views = (
        "Points are users, lines the means of quartiles by train items. Deviations are from the "
        "mean user; diamonds are half the absolute differences, averaged over the group. "
    )
    caption(
        figure,
        f"{views if routed else ''}Lift: how much more an input raises the scores of own train "
        "items than that of the mean item.",
    )
    return figure


def _against_activity(
    panel: Axes, one: UserWeights, size_U: np.ndarray, members: Mapping[str, np.ndarray]
) -> None:
    quartiles = [user_G for name, user_G in members.items() if name.startswith("quartile")]
    known = members["all"]
    for place, name in enumerate(one.views):
        weight_U, shade = one.weight_UV[:, place], colour(place)
        panel.scatter(size_U[known], weight_U[known], s=9, alpha=0.35, color=shade, linewidths=0)
        panel.plot(
            [float(np.mean(size_U[user_G])) for user_G in quartiles if len(user_G)],
            [float(np.mean(weight_U[user_G])) for user_G in quartiles if len(user_G)],
            color=shade,
            marker=marker(place),
            markeredgecolor="#202020",
            markeredgewidth=0.6,
            label=name,
        )
    panel.set_xscale("log")
    low, high = int(size_U[known].min()), int(size_U[known].max())
    ticks = [at for at in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= at <= high]
    panel.set_xticks(ticks, [str(at) for at in ticks])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("train items of a user")
    panel.set_ylabel("weight of a view")
    panel.set_title("weights of views", fontsize=11, loc="left")
    _legend(panel, len(one.views))


def _deviations(panel: Axes, one: UserWeights, members: Mapping[str, np.ndarray]) -> None:
    means = {group: one.deviation_UV[user_G].mean(axis=0) for group, user_G in members.items()}
    _bars(panel, one.views, means, 0)
    apart = [float(one.deviation_U[user_G].mean()) for user_G in members.values()]
    panel.plot(apart, range(len(apart)), "D", color="#202020", markersize=5, label="mean deviation")
    panel.set_xlabel("weight minus that of the mean user")
    panel.set_title("deviation by group", fontsize=11, loc="left")
    _legend(panel, len(one.views) + 1)


def _inputs(panel: Axes, one: UserWeights, members: Mapping[str, np.ndarray]) -> None:
    means = {group: one.lift_UM[user_G].mean(axis=0) for group, user_G in members.items()}
    _bars(panel, one.inputs, means, FIRST_INPUT)
    panel.set_xlabel("lift of own train items by an input, logits")
    panel.set_title("what inputs do for own items", fontsize=11, loc="left")
    _legend(panel, len(one.inputs))


def _bars(panel: Axes, names: Sequence[str], means: Mapping[str, np.ndarray], first: int) -> None:
    thick = 0.8 / len(names)
    for place, name in enumerate(names):
        y = np.arange(len(means)) + (place - (len(names) - 1) / 2) * thick
        value = [float(mean[place]) for mean in means.values()]
        panel.barh(y, value, height=thick * 0.92, color=colour(first + place), label=name)
    panel.axvline(0, color="#202020", linewidth=0.8)
    panel.set_yticks(range(len(means)), list(means))
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")


def _truth(panel: Axes, one: UserWeights, by_text_U: np.ndarray) -> None:
    if not {"text", "image"} <= {*one.inputs}:
        panel.set_axis_off()
        return
    text, image = one.inputs.index("text"), one.inputs.index("image")
    value_U = one.lift_UM[:, image] - one.lift_UM[:, text]
    known_U = ~np.isnan(value_U)
    groups = {
        name: value_U[known_U & (by_text_U == code)]
        for name, code in (("by image", 0.0), ("by both", 0.5), ("by text", 1.0))
    }
    low, high = np.quantile(value_U[known_U], [0.01, 0.99])  # a few users far out hide the rest
    bins = np.linspace(low, max(high, low + 1e-6), 16).tolist()
    panel.hist(
        [np.clip(value, low, high) for value in groups.values()],
        bins=bins,
        color=[colour(1), GREY, colour(0)],
        label=list(groups),
    )
    panel.set_xlabel("lift by image minus lift by text")
    panel.set_ylabel("users")
    panel.set_title("by what users choose in truth", fontsize=11, loc="left")
    _legend(panel, len(groups))


def _legend(panel: Axes, count: int) -> None:
    panel.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=min(4, count),
        frameon=False,
        fontsize=9,
        columnspacing=1.0,
        handletextpad=0.4,
    )
