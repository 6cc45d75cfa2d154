"""One row against all others, in sentences that the numbers make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.benchmarks.tables.cells import Place
from tacit.benchmarks.tables.definition import Data, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.experiment.comparison import Comparison, Entrant
from tacit.experiment.comparison import Row as Compared
from tacit.experiment.comparison_text import p_text
from tacit.experiment.folder import RunFolder
from tacit.experiment.tabulate import tabulate

SIGNIFICANT = 0.05


def verdict(table: Table, out: Path, ledger: Ledger) -> list[str]:
    """For each dataset and metric of the full ranking: what is above the row `against`, and what
    that row is above of, tested user by user; nothing for tables that have no such row."""
    if table.against is None:
        return []
    said = []
    for data in table.datasets:
        entrants, central = _entrants(table, data, out, ledger)
        if table.against not in [entrant.name for entrant in entrants]:
            said.append(f"{data.name}: {table.against} was not run, so nothing is said.")
            continue
        names = {entrant.name for entrant in entrants}
        absent = [row.name for row in table.rows_of(data) if row.name not in names]
        if len(entrants) > 1:
            for kind, metric in table.metrics:
                if kind == "full":
                    comparison = tabulate(entrants, metric, table.against)
                    said.append(f"{data.name}, {metric}: {sentence(comparison, central)}")
        if absent:
            said.append(f"{data.name}: not in this comparison, because not run: {_and(absent)}.")
    return said


def sentence(comparison: Comparison, central: Sequence[str] = ()) -> str:
    """What beats the tested-against row, and whether by more than luck.

    >>> from tacit.evaluation.significance import Interval, Spread
    >>> def row(name, value, p):
    ...     test = None if p is None else Interval(value - 0.3, 0.0, 0.0, p)
    ...     return Compared(name, value, Spread(value, None, 1), {}, test, p, (), (), {}, ())
    >>> rows = (row("ours", 0.3, None), row("ease", 0.4, 0.001), row("fedmf", 0.2, 0.4))
    >>> few = Comparison("HR@10", "few", "clean", True, "by time", "ours", 9, rows, {}, ())
    >>> print(sentence(few, central=["ease"]))
    ease (40.00, central) is above ours (30.00), beyond luck over 9 users (Holm over 2 rows: \
ease p 0.001). No federated method is above it.
    """
    against = comparison.against
    own = next(row for row in comparison.rows if row.name == against)
    others = sorted((r for r in comparison.rows if r.name != against), key=lambda r: -r.value)
    above = [row for row in others if row.value > own.value]
    here = f"{against} ({100 * own.value:.2f})"
    if not above:
        nearest = others[0]
        told = _told(nearest)
        words = "and the two can be told apart" if told else "but the two cannot be told apart"
        return (
            f"nothing is above {here}; the nearest is {_named(nearest, central)}, {words} over "
            f"{comparison.users} users (p {p_text(nearest.p_holm)} after Holm over "
            f"{len(others)} rows)."
        )
    clear = [row for row in above if _told(row)]
    text = f"{_and([_named(row, central) for row in above])} "
    text += f"{'is' if len(above) == 1 else 'are'} above {here}, "
    if clear:
        which = "" if len(clear) == len(above) else f"{_and([row.name for row in clear])} "
        values = ", ".join(f"{row.name} p {p_text(row.p_holm)}" for row in clear)
        text += (
            f"{which}beyond luck over {comparison.users} users (Holm over {len(others)} rows: "
            f"{values})."
        )
    else:
        text += f"but none beyond luck over {comparison.users} users (Holm, {len(others)} rows)."
    if all(row.name in central for row in above):
        text += " No federated method is above it."
    return text


def _told(row: Compared) -> bool:
    return row.p_holm is not None and row.p_holm < SIGNIFICANT


def _named(row: Compared, central: Sequence[str]) -> str:
    return f"{row.name} ({100 * row.value:.2f}{', central' if row.name in central else ''})"


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _entrants(
    table: Table, data: Data, out: Path, ledger: Ledger
) -> tuple[list[Entrant], list[str]]:
    """The finished rows of a dataset under clean, and which of them are central."""
    entrants, central = [], []
    for row in table.rows_of(data):
        start = f"{Place(row, data, 'clean').key} | seed "
        done: list[dict[str, Any]] = [
            record
            for key, record in ledger.cells.items()
            if key.startswith(start) and record["status"] == "done"
        ]
        if done:
            folders = tuple(out / record["folder"] for record in done)
            experiments = tuple(RunFolder(folder).experiment() for folder in folders)
            entrants.append(Entrant(row.name, experiments, folders))
            if done[0]["engine"].startswith("central"):
                central.append(row.name)
    return entrants, central
