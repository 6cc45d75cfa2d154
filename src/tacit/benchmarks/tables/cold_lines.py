"""What stands beside the numbers of a cold-start table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.benchmarks.tables.cell_text import done_of, line
from tacit.benchmarks.tables.cells import Place
from tacit.benchmarks.tables.definition import Data, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.evaluation.significance import Spread
from tacit.experiment.amounts import DASH

NAME = "Recall@20"
WRONG = "NDCG@20"


def cold_lines(table: Table, data: Data, ledger: Ledger) -> list[str]:
    """The list that is the same for everybody, the deviation over draws of noise, items without
    content, the NDCG that papers print; nothing for tables that do not ask."""
    if not table.cold:
        return []
    head = ["method", f"{NAME}, same list for all", f"{NAME}, deviation over noise"]
    head += [f"{NAME}, items without content", f"{WRONG} in index order (not comparable)"]
    head += ["generator, s a round"]
    lines = [line(head), line(["---"] * len(head))]
    shares: dict[str, float] = {}
    for row in table.rows_of(data):
        found = [record["cold"] for record in done_of(ledger, Place(row, data, "clean"))]
        if not found:
            continue
        shares = shares or found[0]["top_shares"]
        columns = [
            [one["same_for_all"][NAME] for one in found],
            [one["draws"][NAME]["deviation"] for one in found if "draws" in one],
            [v for one in found if (v := _apart(one)) is not None],
            [one["ndcg_index_order"][WRONG] for one in found],
        ]
        seconds = [s for one in found if (s := one.get("generator_seconds_a_round")) is not None]
        spent = f"{np.mean(seconds):.3f}" if seconds else DASH
        lines.append(line([row.name, *(_mean(values) for values in columns), spent]))
    if not shares:
        return []
    held = ", ".join(f"{100 * share:.1f} % ({name})" for name, share in shares.items())
    told = f"The most touched cold items hold this share of the test interactions: {held}."
    return ["", f"### {data.name}: beside the numbers", "", told, "", *lines]


def _apart(one: dict[str, Any]) -> float | None:
    value: float | None = one.get("without_content", {}).get("metrics", {}).get(NAME)
    return value


def _mean(values: Sequence[float]) -> str:
    return f"{100 * Spread.of(values).mean:.2f} ({len(values)})" if values else DASH
