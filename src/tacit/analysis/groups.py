"""Who gains: metrics of followers and distinct users, of cold and warm ones, of quartiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Finding, Table, change, percent, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.evaluation.metrics import per_user
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.significance import Interval, paired_bootstrap
from tacit.experiment.amounts import whole_text
from tacit.experiment.charts import GREY, caption, colour, legend_outside, new_figure
from tacit.study.compare import difference_text

# Groups of users by what they have: followers and distinct ones, cold and warm, quartiles.

POPULAR = 0.3  # of the catalogue
COLD = 0.3  # of the users, and as many warm ones


def portion(share: float, count: int) -> int:
    """So many of `count`, at least one.

    >>> portion(0.3, 10), portion(0.3, 1682), portion(0.1, 3)
    (3, 504, 1)
    """
    return max(1, int(share * count + 1e-9))


def popular_items(train: TrainView, ids: Sequence[str], share: float = POPULAR) -> np.ndarray:
    """True for the items with most train interactions; equal ones in the order of their ids.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([2, 1, 2]), 2)
    >>> view = TrainView(4, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> popular_items(view, ["d", "c", "b", "a"], 0.5).tolist()
    [False, True, True, False]
    """
    count_I = train.popularity_I()
    order = sorted(range(train.n_items), key=lambda item: (-count_I[item], ids[item]))
    popular_I = np.zeros(train.n_items, dtype=bool)
    popular_I[order[: portion(share, train.n_items)]] = True
    return popular_I


def popular_shares(train: TrainView, popular_I: np.ndarray) -> np.ndarray:
    """The share of popular items among each user's train items; NaN without any.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([2, 1, 2]), 3)
    >>> view = TrainView(3, lists, np.zeros(3, np.uint64), Lists.empty(3))
    >>> popular_shares(view, np.array([False, False, True])).tolist()
    [0.5, 1.0, nan]
    """
    size_U = train.positives.size_U
    user_N = np.repeat(np.arange(train.n_users), size_U)
    hits_U = np.bincount(user_N, popular_I[train.positives.item_N], minlength=train.n_users)
    return np.divide(hits_U, size_U, out=np.full(train.n_users, np.nan), where=size_U > 0)


def ordered(value_U: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    """User codes by rising value, equal ones by id; users without a value (NaN) are left out.

    >>> ordered(np.array([2.0, 1.0, 1.0, np.nan]), ["d", "c", "b", "a"]).tolist()
    [2, 1, 0]
    """
    known = np.flatnonzero(~np.isnan(value_U))
    return np.array(sorted(known.tolist(), key=lambda u: (value_U[u], ids[u])), dtype=np.int64)


def ends(order: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last n of an order; both are cut to half of it, so nobody is in both.

    >>> [end.tolist() for end in ends(np.array([5, 6, 7, 8, 9]), 3)]
    [[5, 6], [8, 9]]
    """
    n = min(n, len(order) // 2)
    return order[:n], order[len(order) - n :]


def activity(train: TrainView) -> np.ndarray:
    """How many train items each user has; NaN for none, as such a user belongs to no group."""
    size_U = train.positives.size_U.astype(np.float64)
    size_U[size_U == 0] = np.nan
    return size_U


def user_groups(
    train: TrainView, users: Sequence[str], items: Sequence[str], n: int = 100
) -> dict[str, np.ndarray]:
    """All groups by name, as user codes: everybody, `n` distinct users and followers, cold and
    warm ones, and quartiles of activity.
    """
    share_order = ordered(popular_shares(train, popular_items(train, items)), users)
    order = ordered(activity(train), users)
    distinct, followers = ends(share_order, n)
    cold, warm = ends(order, portion(COLD, len(order)))
    quartiles = np.array_split(order, 4)
    return {
        "all": order,
        "distinct": distinct,
        "followers": followers,
        f"cold {COLD:.0%}": cold,
        f"warm {COLD:.0%}": warm,
        **{f"quartile {place}": part for place, part in enumerate(quartiles, 1)},
    }


# Groups as bars: what each run gives them, and what changed from one run to the other.


def groups_figure(
    runs: Sequence[FinishedRun], members: dict[str, np.ndarray], tables: Sequence[Table]
) -> Figure:
    names = list(members)
    figure, panels = new_figure(len(runs), width=5.6, height=4.4)
    records = tables[0].records()
    thick = 0.8 / len(runs)
    for place, run in enumerate(runs):
        own = {record["group"]: record for record in records if record["run"] == run.name}
        y = np.arange(len(names)) + (place - (len(runs) - 1) / 2) * thick
        value = [own[name]["NDCG@10"] or 0.0 for name in names]
        panels[0].barh(y, value, height=thick, color=colour(place), label=run.name)
    panels[0].set_xlabel("test NDCG@10, full ranking")
    if len(runs) == 2:
        shift = [record["NDCG@10"] for record in tables[1].records()]
        bars = [0.0 if value is None else value for value in shift]
        panels[1].barh(range(len(names)), bars, height=0.6, color=GREY)
        for row, value in enumerate(shift):
            text = "from 0" if value is None else f" {value:+.1f} % "
            side = "right" if (value or 0) < 0 else "left"
            panels[1].text(value or 0.0, row, text, va="center", ha=side, fontsize=9)
        panels[1].axvline(0, color="#202020", linewidth=0.8)
        panels[1].set_xlabel("relative change of NDCG@10, %")
        panels[1].margins(x=0.25)
    for place, panel in enumerate(panels):
        panel.set_yticks(range(len(names)), names if place == 0 else [])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
    if len(runs) > 1:
        legend_outside(figure, panels[0])
        figure.suptitle(runs[0].place, fontsize=11)
    else:
        figure.suptitle(f"{runs[0].name}, {runs[0].place}", fontsize=11)
    n = len(members["distinct"])
    caption(
        figure,
        f"Distinct users and followers: the {n} with the smallest and largest share of popular "
        f"items (top {POPULAR:.0%} by train count) in their train items. Quartile 1 has "
        "the fewest train items.",
    )
    return figure


# Who gains: metrics of followers and distinct users, of cold and warm ones, of quartiles.

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
