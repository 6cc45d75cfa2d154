"""Costs against the counts of the papers, for I items and width D."""

from __future__ import annotations

from tacit.analysis.cost import cost
from tacit.analysis.finished import finished_runs


def test_counts_of_every_kind_of_client(runs):
    names = ("fedmf", "pfedrec", "local_only", "fedrap", "gated", "popularity")
    several = finished_runs([runs / name for name in names])
    rows = {row["run"]: row for row in cost(several).tables[0].records()}
    items, dim = several[0].result["counts"]["items"], several[0].algorithm.method.backbone.dim
    table = items * dim
    parameters = {name: row["parameters"] for name, row in rows.items()}
    assert parameters == {
        "fedmf": table + dim,
        "pfedrec": table + dim + 1,
        "local_only": table + dim + 1,
        "fedrap": 2 * table + dim + 1,
        "gated": table + 4 * dim + 2,  # the scorer with its bias, and the gate with its
        "popularity": None,
    }
    for name in names[:5]:
        assert rows[name]["at rest"] == 4 * parameters[name]
        extra = 4 * table if name == "gated" else 0
        assert rows[name]["at peak"] == rows[name]["at rest"] + extra
        one_way = 0 if name == "local_only" else 4 * table
        assert (rows[name]["up"], rows[name]["down"]) == (one_way, one_way)
    for run in several:
        row = rows[run.name]
        assert row["exchanges"] == run.result["cost"]["exchanges"]
        assert row["to best round"] == run.result["cost"]["bytes_total_to_selected_round"]
