"""The tables of a report, from the result of a run: which scorers, which columns, which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SAMPLED = "sampled99"
RANKINGS = {"full": "Full ranking", SAMPLED: "Against 99 sampled"}
REFERENCES = {
    "popularity": "Popularity",
    "chance": "Chance",
    "never_sampled": "Never-sampled oracle",
}


# what runs on untouched items are read by
COLD_COLUMNS = ("Recall@20", "Recall@50", "Recall@100", "NDCG@20")


def headline(run: Mapping[str, Any]) -> int:
    """The cut-off at which a run was selected and is read; runs that do not say are read at 10.

    >>> headline({"select_metric": "HR@50"}), headline({})
    (50, 10)
    """
    return int(str(run.get("select_metric") or "@10").partition("@")[2].partition("+")[0])


def main_columns(run: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What the main table shows of each ranking.

    >>> main_columns({"select_metric": "HR@50"})["full"][-2:]
    ('HR@50', 'NDCG@50')
    """
    if run.get("cold"):
        return {"full": COLD_COLUMNS, SAMPLED: ("HR@10", "NDCG@10")}
    at = dict.fromkeys((10, 20, headline(run)))
    full = tuple(f"{name}@{k}" for k in at for name in ("HR", "NDCG"))
    return {"full": full, SAMPLED: ("HR@10", "NDCG@10")}


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
    """The method, then the references that the result holds, in both rankings.

    >>> references = {"full": {"popularity": {"HR@10": 0.1}}}
    >>> table = main_table({"metrics": {"full": {"HR@10": 0.2}}, "reference": references})
    >>> table["full"].rows["Popularity"][0]
    (0.1, 0.5)
    """
    references = {kind: run["reference"].get(kind) or {} for kind in RANKINGS}
    present = [key for key in REFERENCES if any(references[kind].get(key) for kind in RANKINGS)]
    groups = {}
    for kind, title in RANKINGS.items():
        columns = main_columns(run)[kind]
        values = {"method": run["metrics"].get(kind) or {}}
        values |= {REFERENCES[key]: references[kind].get(key) or {} for key in present}
        largest = {name: max(row.get(name) or 0.0 for row in values.values()) for name in columns}
        rows = {
            scorer: [
                (row.get(name), (row.get(name) or 0.0) / (largest[name] or 1.0)) for name in columns
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
    return sorted({int(at) for _, _, at in map(_parts, names) if at.isdigit()})


def by_cutoff(run: Mapping[str, Any]) -> list[tuple[str, str, list[float | None]]]:
    """A row (metric, ranking, value at each cut-off) for everything that was measured.

    >>> by_cutoff({"metrics": {"full": {"HR@5": 0.1, "HR@10": 0.2}}})
    [('HR', 'Full ranking', [0.1, 0.2])]
    """
    rows = []
    for kind, title in RANKINGS.items():
        values = run["metrics"].get(kind) or {}
        for metric in dict.fromkeys(_parts(name)[0] for name in values):
            rows.append((metric, title, [values.get(f"{metric}@{at}") for at in cutoffs(run)]))
    return rows


def warmth_columns(run: Mapping[str, Any]) -> list[str]:
    """The main columns that the breakdown by warmth has values for.

    >>> warmth_columns({"breakdown": {"warm": {"users": 3, "full": {"HR@10": 0.2, "HR@50": 0.4}}}})
    ['HR@10']
    """
    parts = (run.get("breakdown") or {}).values()
    return [
        name
        for name in main_columns(run)["full"]
        if any(name in (p.get("full") or {}) for p in parts)
    ]


def _parts(name: str) -> tuple[str, str, str]:
    return name.partition("@")
