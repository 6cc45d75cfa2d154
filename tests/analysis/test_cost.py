"""Costs against the counts of the papers, for I items and width D."""

from __future__ import annotations

from typing import Any

from tacit.analysis.cost import cost
from tacit.analysis.finding import Finding
from tacit.analysis.finished import finished_runs


def merged(finding: Finding) -> dict[str, dict[str, Any]]:
    """What stands of each run in both tables."""
    device, wire = (table.records() for table in finding.tables)
    return {a["run"]: a | b for a, b in zip(device, wire, strict=True)}


def test_counts_of_every_kind_of_client(runs):
    names = ("fedmf", "pfedrec", "local_only", "fedrap", "gated", "popularity")
    several = finished_runs([runs / name for name in names])
    rows = merged(cost(several))
    items, dim = several[0].record.counts.items, several[0].algorithm.method.backbone.dim
    table = items * dim
    parameters = {name: row["stored"] for name, row in rows.items()}
    assert {name: row["trained"] for name, row in rows.items()} == parameters
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
        assert row["exchanges"] == run.record.cost.exchanges
        assert row["to best round"] == run.record.cost.bytes_total_to_selected_round


def test_counts_of_fused_runs_by_formula(fused_runs):
    """Width 4 of an operator and of the router's layer, ids 6 wide, content 256 wide each."""
    several = finished_runs([fused_runs / name for name in ("mixed", "sent", "rap")])
    finding = cost(several)
    rows = merged(finding)
    mixed, sent, rap = (rows[run.name] for run in several)
    items = several[0].record.counts.items
    operators = (6 * 4 + 4) + 2 * (256 * 4 + 4)  # projections of id, text, image
    operators += (12 * 128 + 128) + (128 * 4 + 4)  # the perceptron
    operators += 3 * (4 * 4 + 4) + (12 * 4 + 4)  # the gate
    own = (12 * 4 + 4) + (4 * 3 + 3) + (4 + 1)  # router and scorer
    content, views = 2 * 256 * items, 3 * 4 * items
    assert mixed["trained"] == sent["trained"] == own
    assert rap["trained"] == own + 6 * items
    assert mixed["stored"] == own + operators + 6 * items + content
    assert sent["stored"] == own + views
    assert rap["stored"] == mixed["stored"] + 6 * items
    assert mixed["up"] == mixed["down"] == rap["up"] == 4 * (operators + 6 * items)
    assert sent["up"] == sent["down"] == 4 * views
    assert (mixed["once"], sent["once"], rap["once"]) == (4 * content, 0, 4 * content)
    assert mixed["once"] == several[0].record.cost.bytes_once
    said = [sentence for sentence in finding.sentences if "takes part" in sentence]
    assert f"{own + operators + 6 * items:,}" in said[0]
    assert "made on the device" in said[0]
    assert "made on the server" in said[1]
