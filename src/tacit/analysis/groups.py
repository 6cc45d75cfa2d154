"""Who gains: metrics of followers and distinct users, of cold and warm ones, of quartiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.analysis.finding import Column, Finding, Table, change, percent, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.groups_figure import groups_figure
from tacit.analysis.user_groups import (
    COLD,
    POPULAR,
    activity,
    popular_items,
    popular_shares,
    user_groups,
)
from tacit.errors import TacitError
from tacit.evaluation.metrics import per_user
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.significance import Interval, paired_bootstrap
from tacit.experiment.amounts import whole_text
from tacit.experiment.comparison_text import difference_text

METRICS = ("NDCG@5", "Recall@5", "NDCG@10", "Recall@10")
DRAWS = 2000  # of the bootstrap behind each interval


def groups(runs: Sequence[FinishedRun], *, n: int = 100) -> Finding:
    """Test metrics of each group of users, in the full ranking; for two runs also what changed from
    the first to the second.

    >>> groups([], n=0)
    Traceback (most recent call last):
    tacit.errors.TacitError: n is 0; a group needs at least 1 user.
    """
    if n < 1:
        raise TacitError(f"n is {n}; a group needs at least 1 user.")
    if len(runs) > 2:
        raise TacitError(f"groups compares one run with another, not {len(runs)}; give one or two.")
    require_alike(runs)
    prepared = runs[0].prepared
    rows, train = prepared.dataset.interactions, prepared.split.train
    members = user_groups(train, rows.users, rows.items, n)
    size_U = activity(train)
    share_U = popular_shares(train, popular_items(train, rows.items))
    values = [group_values(run.test.full, run.experiment.protocol.ties) for run in runs]
    table = [
        (name, run.name, *_means(values[place], user_G), *_about(user_G, size_U, share_U))
        for name, user_G in members.items()
        for place, run in enumerate(runs)
    ]
    columns = (
        Column("group", word),
        Column("run", word),
        Column("users", whole_text),
        *(Column(metric) for metric in METRICS),
        Column("mean train items", lambda value: f"{value:.1f}"),
        Column("popular share", percent),
    )
    tables = [Table("groups", f"Test, full ranking, {runs[0].place}", columns, tuple(table))]
    sentences = [
        f"Popular items are the top {POPULAR:.0%} by train count; followers have the largest share "
        f"of them, distinct users the smallest; cold and warm are the {COLD:.0%} with fewest and "
        "most train items."
    ]
    if len(members["distinct"]) < n:
        sentences.append(
            f"There are {len(members['all'])} users, so distinct ones and followers are "
            f"{len(members['distinct'])} each instead of {n}."
        )
    if len(runs) == 2:
        changes = [
            (name, *_changes(values[0], values[1], user_G)) for name, user_G in members.items()
        ]
        tables.append(_change_table(runs, changes))
        sentences.append(
            "A user is better or worse off by the rank of the held-out items; the interval is that "
            "of the mean difference in NDCG@10, paired over users."
        )
    return Finding("groups", tuple(tables), groups_figure(runs, members, tables), tuple(sentences))


Values = dict[str, dict[int, float]]  # by metric (and "rank"), then by user


def group_values(ranks: Ranks, ties: Any) -> Values:
    """Each user's metrics, and the mean expected rank of the user's held-out items.

    >>> ranks = Ranks(*np.array([[4, 2], [0, 1], [9, 0], [2, 0], [50, 50]]), "test", "full")
    >>> values = group_values(ranks, "expected")
    >>> values["rank"], values["Recall@5"]
    ({2: 1.0, 4: 11.0}, {2: 1.0, 4: 0.0})
    """
    values: Values = {}
    for metric in METRICS:
        user_E, value_E = per_user(ranks, metric, ties)
        values[metric] = dict(zip(user_E.tolist(), value_E.tolist(), strict=True))
    user_E, place_H = np.unique(ranks.user_H, return_inverse=True)
    rank_H = ranks.above_H + 1 + ranks.tied_H / 2
    mean_E = np.bincount(place_H, rank_H) / np.bincount(place_H)
    return values | {"rank": dict(zip(user_E.tolist(), mean_E.tolist(), strict=True))}


def _of(values: Values, metric: str, user_G: np.ndarray) -> np.ndarray:
    """One metric of a group's users, in their order, without those who have nothing held out."""
    known = values[metric]
    return np.array([known[user] for user in user_G.tolist() if user in known])


def _means(values: Values, user_G: np.ndarray) -> tuple[Any, ...]:
    found = [_of(values, metric, user_G) for metric in METRICS]
    return len(found[0]), *(float(one.mean()) if len(one) else None for one in found)


def _about(user_G: np.ndarray, size_U: np.ndarray, share_U: np.ndarray) -> tuple[float, float]:
    return float(size_U[user_G].mean()), 100 * float(share_U[user_G].mean())


def _changes(first: Values, second: Values, user_G: np.ndarray) -> tuple[Any, ...]:
    """Users, relative changes in %, shares of users better and worse off in %, and the interval."""
    relative = []
    for metric in METRICS:
        before, after = (_of(values, metric, user_G) for values in (first, second))
        relative.append(relative_change(before, after))
    before, after = (_of(values, "rank", user_G) for values in (first, second))
    if not len(before):
        return 0, *relative, None, None, None
    scores = [_of(values, "NDCG@10", user_G) for values in (second, first)]
    interval = paired_bootstrap(*scores, draws=DRAWS)
    better, worse = 100 * float((after < before).mean()), 100 * float((after > before).mean())
    return len(before), *relative, better, worse, interval


def relative_change(before_G: np.ndarray, after_G: np.ndarray) -> float | None:
    """The change of the mean in per cent of the first; None from nothing.

    >>> relative_change(np.array([0.2, 0.2]), np.array([0.4, 0.1]))
    25.0
    """
    if not len(before_G) or before_G.mean() == 0:
        return None
    return round(100 * float(after_G.mean() / before_G.mean() - 1), 10)


def _change_table(runs: Sequence[FinishedRun], changes: Sequence[tuple[Any, ...]]) -> Table:
    def interval(value: Interval | str | None) -> str:
        return difference_text(value) if isinstance(value, Interval | None) else value

    columns = (
        Column("group", word),
        Column("users", whole_text),
        *(Column(metric, change) for metric in METRICS),
        Column("better", percent),
        Column("worse", percent),
        Column("NDCG@10 difference", interval),
    )
    rows = tuple((*row[:-1], interval(row[-1])) for row in changes)
    return Table("groups-change", f"Change from {runs[0].name} to {runs[1].name}", columns, rows)
