"""Results as rich tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.experiment.amounts import bytes_text, metric_text

if TYPE_CHECKING:
    from rich.table import Table

FULL = ("HR@5", "HR@10", "HR@20", "NDCG@10")
SAMPLED = ("HR@10", "NDCG@10")
REFERENCES = {
    "popularity": "popularity",
    "chance": "chance",
    "never_sampled": "never-sampled oracle",
}


def plain_table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0
) -> Table:
    """A table of texts as they are; the last `numbers` columns stand to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=None if title is None else Text(title), title_justify="left", box=box.SIMPLE_HEAD
    )
    for place, column in enumerate(columns):
        right = place >= len(columns) - numbers
        table.add_column(Text(column), justify="right" if right else "left", no_wrap=right)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def result_table(result: Mapping[str, Any]) -> Table:
    """The method beside popularity, chance and the never-sampled oracle."""
    rows = [_row(_name(result), result["metrics"]["full"], result["metrics"]["sampled99"])]
    for key, name in REFERENCES.items():
        full, sampled = (result["reference"][kind][key] for kind in ("full", "sampled99"))
        rows.append(_row(name, full, sampled))
    columns = ["", *FULL, *(f"{name} vs 99" for name in SAMPLED)]
    return plain_table(None, columns, rows, numbers=len(FULL) + len(SAMPLED))


def _name(result: Mapping[str, Any]) -> str:
    return " + ".join([result["method"], *result["plugins"]])


def _row(name: str, full: Mapping[str, float], sampled: Mapping[str, float]) -> list[str]:
    return [
        name,
        *(metric_text(full[metric]) for metric in FULL),
        *(metric_text(sampled[metric]) for metric in SAMPLED),
    ]


def lines_of_result(result: Mapping[str, Any]) -> list[str]:
    """What must be known beside the numbers: where they come from, what they cost, who can read."""
    from tacit.experiment.comparison_text import mark

    cost, privacy = result["cost"], result["privacy"]
    warning = mark(result["protocol"], result["clean"])
    often = ", once" if result["engine"].startswith("central") else " and round"
    guarantee = privacy["guarantee"]
    words = "no guarantee" if guarantee == "none" else str(guarantee)
    return [
        *([warning] if warning else []),
        f"protocol  {result['protocol']}, split {result['split']}, preset {result['preset']}, "
        f"seed {result['seed']}",
        f"selected  round {result['selected_round']} of {result['rounds_run']} "
        f"({result['selection']})",
        f"bytes     {bytes_text(cost['bytes_up'])} up and {bytes_text(cost['bytes_down'])} down "
        f"per client{often}, {bytes_text(cost['bytes_total_to_selected_round'])} in all",
        f"privacy   {words}: {'; '.join(privacy['server_reads'])}",
        f"engine    {result['engine']}, {result['seconds']:.1f} s",
        *(f"note      {note}" for note in result["notes"]),
    ]
