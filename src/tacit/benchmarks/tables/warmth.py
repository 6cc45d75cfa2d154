"""Test items that somebody has in train, and those that nobody has, apart."""

from __future__ import annotations

from tacit.benchmarks.tables.cell_text import cell_text, done_of, line, metric_text
from tacit.benchmarks.tables.cells import Place
from tacit.benchmarks.tables.definition import Column, Data, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.record import KINDS


def warmth_lines(table: Table, data: Data, ledger: Ledger) -> list[str]:
    """What each kind of test item adds to the full-ranking numbers of a dataset; nothing for a
    table that does not ask, or before its first cell."""
    columns = table.columns_of(data)
    names: dict[Column, str] = {"paper": table.paper or "", "clean": "clean"}
    counts = {names[c]: count for c in columns if (count := _count(table, data, c, ledger))}
    if not table.warmth or not counts:
        return []
    if not any(unseen for unseen, _ in counts.values()):
        return ["", "Every test item is in somebody's train."]
    told = ", ".join(f"{unseen} of {all_} under {name}" for name, (unseen, all_) in counts.items())
    full = [metric for metric in table.metrics if metric[0] == "full"]
    parts = [(column, kind) for column in columns for kind in KINDS]
    head = ["method", "metric", *(f"{names[column]}, {kind}" for column, kind in parts)]
    lines = [
        f"### {data.name}: warm and unseen test items",
        "",
        f"What test items in somebody's train (warm) and in nobody's (unseen) add to the numbers "
        f"above; the two sum to the whole. Unseen are {told}.",
        "",
        line(head),
        line(["---"] * len(head)),
    ]
    for row in table.rows_of(data):
        for metric in full:
            texts = [cell_text(ledger, Place(row, data, c), metric, kind) for c, kind in parts]
            lines.append(line([row.name, metric_text(metric), *texts]))
    return ["", *lines]


def _count(table: Table, data: Data, column: Column, ledger: Ledger) -> tuple[int, int] | None:
    """How many test items are unseen, and how many there are, in the first finished run."""
    for row in table.rows_of(data):
        for record in done_of(ledger, Place(row, data, column)):
            if parts := record.get("breakdown"):
                unseen, warm = parts["unseen"]["held_out"], parts["warm"]["held_out"]
                return unseen, unseen + warm
    return None
