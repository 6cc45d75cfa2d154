"""FedRKG's gates: how much of the global table different users let in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.analysis.finding import Column, Finding, Table, change, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.gate_means import GateMeans, gate_means
from tacit.analysis.gates_figure import ACTIVITY, EXTREMES, gates_figure
from tacit.analysis.user_groups import (
    activity,
    ends,
    ordered,
    popular_items,
    popular_shares,
    portion,
)
from tacit.errors import TacitError
from tacit.experiment.amounts import DASH, whole_text
from tacit.sync.guidance import AdaptiveGuidance


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
        sync = run.algorithm.method.sync if run.composed else None
        if not isinstance(sync, AdaptiveGuidance):
            raise TacitError(
                f"{run.name} has no gates; give a run whose tables meet by adaptive guidance, as "
                "FedRKG's do."
            )
        means = gate_means(sync, run.state, popular_I)
        found.append(means)
        table += [(run.name, *row) for row in _rows(means, by_share, by_activity)]
        if means.untouched:
            said.append(
                f"All gates of {run.name} are exactly 0.5, where they begin: none was trained up "
                f"to round {run.result['selected_round']}, whose model the run kept."
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
