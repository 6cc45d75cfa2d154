"""The tables of a report, from the result of a run: which scorers, which columns, which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.evaluation.metrics import parse_metric

SAMPLED = "sampled99"
RANKINGS = {"full": "Full ranking", SAMPLED: "Against 99 sampled"}
REFERENCES = {
    "popularity": "Popularity",
    "chance": "Chance",
    "never_sampled": "Never-sampled oracle",
}
SAME_FOR_ALL = "One list for everybody"

# what runs on untouched items are read by, in the result and round by round
COLD_COLUMNS = ("Recall@20", "Recall@50", "Recall@100", "NDCG@20")
COLD_CURVES = COLD_COLUMNS[:3]


def is_cold(run: Mapping[str, Any]) -> bool:
    """Whether a run was judged on items that nobody has touched; only such results say `cold`.

    >>> is_cold({"method": "fedmf"})
    False
    """
    return "cold" in run


def unit_of(run: Mapping[str, Any]) -> str:
    """What validation chose among: rounds, or the settings of a closed form.

    >>> unit_of({"unit": "setting"}), unit_of({})
    ('setting', 'round')
    """
    return str(run.get("unit", "round"))  # results of earlier versions do not say


def headline(run: Mapping[str, Any]) -> int:
    """The cut-off at which a run was selected and is read, the largest where there are several;
    every result and every validated round has its metrics.

    >>> headline({"select_metric": "HR@50"}), headline({"select_metric": "HR@15+30"})
    (50, 30)
    """
    return parse_metric(run["select_metric"])[1]


def main_columns(run: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What the main table shows of each ranking.

    >>> main_columns({"select_metric": "HR@50"})["full"][-2:]
    ('HR@50', 'NDCG@50')
    """
    if is_cold(run):
        return {"full": COLD_COLUMNS, SAMPLED: ("HR@10", "NDCG@10")}
    at = dict.fromkeys((10, 20, headline(run)))
    full = tuple(f"{name}@{k}" for k in at for name in ("HR", "NDCG"))
    return {"full": full, SAMPLED: ("HR@10", "NDCG@10")}


def curve_columns(run: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What is drawn round by round: metrics that every validated round has.

    >>> curve_columns({"select_metric": "HR@50"})["full"]
    ('HR@50', 'NDCG@50')
    """
    if is_cold(run):
        return {"full": COLD_CURVES, SAMPLED: ("HR@10", "NDCG@10")}
    both = tuple(f"{name}@{headline(run)}" for name in ("HR", "NDCG"))
    return {"full": both, SAMPLED: both}


@dataclass(frozen=True)
class Group:
    """Columns of one ranking; a row per scorer of (value, its share of the column's largest).

    >>> Group("Full ranking", ("HR@10",), {"method": [(0.2, 1.0)]}).columns
    ('HR@10',)
    """

    title: str
    columns: tuple[str, ...]
    rows: dict[str, list[tuple[float | None, float]]]


def main_table(run: Mapping[str, Any]) -> dict[str, Group]:
    """The method, then its references, in both rankings.

    Runs on untouched items also have the list that is the same for everybody, in the full ranking.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run as play
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = main_table(play(resolve("popularity"), Path(folder, "one")))
    >>> table["full"].rows["method"] == table["full"].rows["Popularity"]
    True
    """
    groups = {}
    for kind, title in RANKINGS.items():
        columns = main_columns(run)[kind]
        scorers: dict[str, Mapping[str, float]] = {"method": run["metrics"][kind]}
        if is_cold(run):
            scorers[SAME_FOR_ALL] = run["cold"]["same_for_all"] if kind == "full" else {}
        scorers |= {name: run["reference"][kind][key] for key, name in REFERENCES.items()}
        values = {
            scorer: [row[name] if row else None for name in columns]
            for scorer, row in scorers.items()
        }
        largest = [
            max(filter(None, column), default=1.0) for column in zip(*values.values(), strict=True)
        ]
        rows = {
            scorer: [
                (value, (value or 0.0) / most) for value, most in zip(row, largest, strict=True)
            ]
            for scorer, row in values.items()
        }
        groups[kind] = Group(title, columns, rows)
    return groups


def cutoffs(run: Mapping[str, Any]) -> list[int]:
    """All cut-offs of the result's metrics, smallest first.

    >>> cutoffs({"metrics": {"full": {"HR@20": 0.3, "NDCG@5": 0.1}}})
    [5, 20]
    """
    names = [name for values in run["metrics"].values() for name in values]
    return sorted({int(name.partition("@")[2]) for name in names})


def by_cutoff(run: Mapping[str, Any]) -> list[tuple[str, str, list[float | None]]]:
    """A row (metric, ranking, value at each cut-off) for everything that was measured; a result on
    untouched items has precision too, at some cut-offs.

    >>> by_cutoff({"metrics": {"full": {"HR@5": 0.1, "HR@10": 0.2}, "sampled99": {}}})
    [('HR', 'Full ranking', [0.1, 0.2])]
    """
    rows = []
    for kind, title in RANKINGS.items():
        values = dict(run["metrics"][kind])
        if is_cold(run) and kind == "full":
            values |= run["cold"]["metrics"]
        for metric in dict.fromkeys(name.partition("@")[0] for name in values):
            rows.append((metric, title, [values.get(f"{metric}@{at}") for at in cutoffs(run)]))
    return rows


def warmth_rows(run: Mapping[str, Any]) -> list[tuple[str, int, list[float | None], float | None]]:
    """Warm and unseen test items: name, users, values of the main columns, and what they add to
    the headline's hits. A kind without users has no values; where a user has several held-out
    items, kinds do not add up to the whole. None of this is for runs whose test items are all
    untouched.

    >>> part = {"users": 0, "full": {}, "adds": {}}
    >>> run = {"select_metric": "HR@10", "breakdown": {"warm": part, "unseen": part}}
    >>> warmth_rows(run)[0]
    ('Warm', 0, [None, None, None, None], None)
    """
    if is_cold(run):
        return []
    hits, columns = f"HR@{headline(run)}", main_columns(run)["full"]
    parts = {kind: run["breakdown"][kind] for kind in ("warm", "unseen")}
    summed = any(part["adds"] for part in parts.values())
    rows = []
    for kind, part in parts.items():
        values = [part["full"][name] if part["full"] else None for name in columns]
        adds = (part["adds"][hits] if part["adds"] else 0.0) if summed else None
        rows.append((kind.capitalize(), part["users"], values, adds))
    return rows
