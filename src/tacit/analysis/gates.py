"""FedRKG's gates: how much of the global table different users let in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit.analysis.finding import Column, Finding, Table, change, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.groups import (
    POPULAR,
    activity,
    ends,
    ordered,
    popular_items,
    popular_shares,
    portion,
)
from tacit.core.parts import Guided
from tacit.core.types import ITEMS, OWN_ITEMS, Params
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.amounts import DASH, whole_text
from tacit.experiment.charts import caption, colour, legend_outside, new_figure

# Gates of all users, reduced to what groups are compared by.


@dataclass(frozen=True, eq=False)
class GateMeans:
    """Each user's mean gate and mean logit, over popular items and over all items."""

    value_popular_U: np.ndarray
    logit_popular_U: np.ndarray
    value_all_U: np.ndarray
    logit_all_U: np.ndarray
    untouched: bool  # every gate is exactly one half


@torch.no_grad()
def gate_means(sync: Guided, state: State, popular_I: np.ndarray) -> GateMeans:
    """Gates of all users, one user at a time: all of them at once would be a table of users by
    items. In double precision, since trained gates differ in the fourth digit."""
    n_users = len(state.private[OWN_ITEMS])
    mean_4U, untouched = np.empty((4, n_users)), True
    global_ID = state.shared[ITEMS].double()
    for user in range(n_users):
        p: Params = {name: state.private[name][user].double() for name in sync.gate_parameters}
        p |= {OWN_ITEMS: state.private[OWN_ITEMS][user].double(), ITEMS: global_ID}
        logit_I = sync.gate_logit(p).expand(len(global_ID)).numpy()
        value_I = sync.gate(p).expand(len(global_ID)).numpy()
        untouched = untouched and bool((value_I == 0.5).all())
        mean_4U[:, user] = (
            value_I[popular_I].mean(),
            logit_I[popular_I].mean(),
            value_I.mean(),
            logit_I.mean(),
        )
    value_popular_U, logit_popular_U, value_all_U, logit_all_U = mean_4U
    return GateMeans(value_popular_U, logit_popular_U, value_all_U, logit_all_U, untouched)


# Histograms of users' mean gates, by groups.

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
    ends_of_activity = dict(zip(("cold", "warm"), ends(by_activity, n), strict=True))
    for place, (run, means) in enumerate(zip(runs, found, strict=True)):
        left, right = panels[2 * place : 2 * place + 2]
        _histogram(left, means.value_popular_U, share, 0)
        _histogram(right, means.value_all_U, ends_of_activity, 2)
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
    # gates at the released rate differ in the sixth digit: long labels, so few of them
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
    panel.ticklabel_format(axis="x", useOffset=False)
    panel.tick_params(axis="x", rotation=20)


# FedRKG's gates: how much of the global table different users let in.


def gates(runs: Sequence[FinishedRun]) -> Finding:
    """Mean gates of followers against distinct users over popular items, and of warm against cold
    users over all items; histograms of users' means."""
    require_alike(runs)
    prepared = runs[0].prepared
    rows, train = prepared.dataset.interactions, prepared.split.train
    popular_I = popular_items(train, rows.items)
    by_share = ordered(popular_shares(train, popular_I), rows.users)
    by_activity = ordered(activity(train), rows.users)
    found, table, said = [], [], []
    for run in runs:
        sync = run.algorithm.method.sync.guidance if run.composed else None
        if sync is None or not sync.gate_parameters:
            raise TacitError(
                f"{run.name} has no gates; give a run whose tables are mixed by adaptive guidance, "
                "as FedRKG's do."
            )
        means = gate_means(sync, run.state, popular_I)
        found.append(means)
        table += [(run.name, *row) for row in _rows(means, by_share, by_activity)]
        if means.untouched:
            said.append(
                f"All gates of {run.name} are exactly 0.5, where they begin: none was trained up "
                f"to round {run.record.selected_round}, whose model the run kept."
            )
    absent = [n for n in EXTREMES if 2 * n > len(by_share)]
    if absent:
        said.append(
            f"There are {len(by_share)} users, too few for {' and '.join(map(str, absent))} "
            "distinct ones and as many followers."
        )
    said.append(
        "Gates are those of the kept model: personal tables of its round, the global table of the "
        "guidance before it. `A to B` is (B - A) / |A|; each group has so many users."
    )
    figure = gates_figure(runs, found, by_share, by_activity)
    title = f"Mean gates, {runs[0].place}"
    return Finding("gates", (Table("gates", title, COLUMNS, tuple(table)),), figure, tuple(said))


def _small(value: Any) -> str:
    return DASH if value is None else f"{value:.4g}"


COLUMNS = (
    Column("run", word),
    Column("A and B", word),
    Column("items", word),
    Column("users", whole_text),
    Column("gate A", lambda value: f"{value:.5f}"),
    Column("gate B", lambda value: f"{value:.5f}"),
    Column("gate A to B", change),
    Column("logit A", _small),
    Column("logit B", _small),
    Column("logit A to B", change),
)


def relative_difference(first: float, second: float) -> float | None:
    """From the first to the second, in per cent of the first's absolute value.

    >>> [relative_difference(*pair) for pair in ((0.5, 0.6), (-2.0, -1.0), (0.0, 1.0))]
    [20.0, 50.0, None]
    """
    return None if first == 0 else round(100 * (second - first) / abs(first), 10)


def _rows(means: GateMeans, by_share: np.ndarray, by_activity: np.ndarray) -> list[tuple[Any, ...]]:
    def row(
        groups: str,
        items: str,
        pair: tuple[np.ndarray, np.ndarray],
        value_U: np.ndarray,
        logit_U: np.ndarray,
    ) -> tuple[Any, ...]:
        value = [float(value_U[user_G].mean()) for user_G in pair]
        logit = [float(logit_U[user_G].mean()) for user_G in pair]
        return (
            groups,
            items,
            len(pair[0]),
            *value,
            relative_difference(*value),
            *logit,
            relative_difference(*logit),
        )

    popular = (means.value_popular_U, means.logit_popular_U)
    everything = (means.value_all_U, means.logit_all_U)
    sizes = [n for n in EXTREMES if 2 * n <= len(by_share)] or [len(by_share) // 2]
    return [
        *(row("distinct, followers", "popular", ends(by_share, n), *popular) for n in sizes),
        *(
            row(
                f"cold, warm {s:.0%}",
                "all",
                ends(by_activity, portion(s, len(by_activity))),
                *everything,
            )
            for s in ACTIVITY
        ),
    ]
