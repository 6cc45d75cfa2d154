"""What stands in a cell of the Markdown: numbers over the finished seeds, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.benchmarks.tables.cells import Place
from tacit.benchmarks.tables.definition import Metric
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.record import Kind, metric_key
from tacit.evaluation.significance import Spread
from tacit.experiment.amounts import DASH

CANDIDATES = {"full": "full", "sampled99": "1+99"}


def records_of(ledger: Ledger, place: Place) -> list[dict[str, Any]]:
    """What is known of all seeds of a place."""
    start = f"{place.key} | seed "
    return [record for key, record in ledger.cells.items() if key.startswith(start)]


def done_of(ledger: Ledger, place: Place) -> list[dict[str, Any]]:
    """The finished seeds of a place."""
    return [record for record in records_of(ledger, place) if record["status"] == "done"]


def values_of(
    ledger: Ledger, place: Place, metric: Metric, kind: Kind | None = None
) -> list[float]:
    """A metric over the finished seeds of a place, in percent; with `kind`, what the warm or the
    unseen test items contribute to it."""
    done = done_of(ledger, place)
    if kind is None:
        return [100 * record["metrics"][metric_key(metric)] for record in done]
    parts = [record.get("breakdown", {}).get(kind, {}).get("adds", {}) for record in done]
    return [100 * part[metric_key(metric)] for part in parts if metric_key(metric) in part]


def cell_text(
    ledger: Ledger,
    place: Place,
    metric: Metric,
    kind: Kind | None = None,
    *,
    interval: bool = False,
) -> str:
    """The number with its deviation over seeds, or with its interval; or why there is none."""
    values = values_of(ledger, place, metric, kind)
    if not values:
        states = [record["status"] for record in records_of(ledger, place)]
        return states[0] if states and states[0] != "done" else DASH
    spread = Spread.of(values)
    if spread.deviation is None:
        return f"{spread.mean:.2f} (1)"
    around = spread.half_width() if interval else spread.deviation
    return f"{spread.mean:.2f} ± {around:.2f} ({spread.seeds})"


def metric_text(metric: Metric) -> str:
    """A metric as a heading.

    >>> metric_text(("sampled99", "HR@10"))
    'HR@10 1+99'
    """
    return f"{metric[1]} {CANDIDATES[metric[0]]}"


def line(cells: Sequence[str]) -> str:
    """A line of a Markdown table.

    >>> line(["a", "b | c"])
    '| a | b \\\\| c |'
    """
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
