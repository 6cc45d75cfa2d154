"""One row against all others, in sentences that the numbers make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.benchmarks.tables.cells import Place
from tacit.benchmarks.tables.definition import Data, Metric, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.record import metric_key
from tacit.benchmarks.tables.tested import Records, p_value
from tacit.study.compare import p_text

SIGNIFICANT = 0.05


@dataclass
class Standing:
    """A row on one dataset: its mean over seeds, and the p-value of its difference from the row
    that all are compared with, None where that was not tested."""

    name: str
    value: float
    p: float | None = None
    central: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({100 * self.value:.2f}{', central' if self.central else ''})"

    def corrected(self, rows: int) -> float | None:
        """Bonferroni over rows: what it says of one row needs no other row's runs, which may have
        run on another machine."""
        return None if self.p is None else min(1.0, rows * self.p)


def verdict(table: Table, out: Path, ledger: Ledger) -> list[str]:
    """For each dataset and metric of the full ranking: what is above the row `against`, and what
    that row is above of, tested user by user; nothing for tables that have no such row."""
    if table.against is None:
        return []
    said = []
    for data in table.datasets:
        done = _done(table, data, ledger)
        if table.against not in done:
            said.append(f"{data.name}: {table.against} was not run, so nothing is said.")
            continue
        own = done.pop(table.against)
        for metric in table.metrics:
            if metric[0] == "full" and done:
                bar, others = _standing(own, metric), [_standing(r, metric) for r in done.values()]
                highest = max(row.value for row in others)
                for row in others:
                    if row.value > bar.value or row.value == highest:  # what the sentence names
                        row.p = p_value(ledger, out, metric[1], own, done[row.name])
                text = sentence(bar, others, own[0]["users"])
                said.append(f"{data.name}, {metric[1]}: {text}")
        ran = {table.against, *done}
        if absent := [row.name for row in table.rows_of(data) if row.name not in ran]:
            said.append(f"{data.name}: not in this comparison, because not run: {_and(absent)}.")
    return said


def sentence(own: Standing, others: Sequence[Standing], users: int) -> str:
    """What beats a row, and whether by more than luck.

    >>> ease = Standing("ease", 0.4, 0.0005, central=True)
    >>> print(sentence(Standing("ours", 0.3), [ease, Standing("fedmf", 0.2, 0.4)], users=9))
    ease (40.00, central) is above ours (30.00), beyond luck over 9 users (Bonferroni over 2 rows: \
ease p 0.001). No federated method is above it.
    """
    ranked = sorted(others, key=lambda row: -row.value)
    above = [row for row in ranked if row.value > own.value]
    rows = f"Bonferroni over {len(ranked)} rows"
    if not above:
        nearest = ranked[0]
        p = nearest.corrected(len(ranked))
        told = p is not None and p < SIGNIFICANT
        words = "and the two can be told apart" if told else "but the two cannot be told apart"
        tested = f"{words} over {users} users (p {p_text(p)}, {rows})"
        tested = "not tested, because its runs are not here" if p is None else tested
        return f"nothing is above {own}; the nearest is {nearest}, {tested}."
    values = {row.name: row.corrected(len(ranked)) for row in above}
    clear = {name: p for name, p in values.items() if p is not None and p < SIGNIFICANT}
    untested = [name for name, p in values.items() if p is None]
    text = f"{_and([str(row) for row in above])} {'is' if len(above) == 1 else 'are'} above {own}, "
    if clear:
        which = "" if len(clear) == len(above) else f"{_and(list(clear))} "
        each = ", ".join(f"{name} p {p_text(p)}" for name, p in clear.items())
        text += f"{which}beyond luck over {users} users ({rows}: {each})"
    elif len(untested) < len(above):
        text += f"but none beyond luck over {users} users ({rows})"
    if untested:
        text += "; " if not text.endswith(", ") else ""
        text += f"not tested, because the runs are not here: {_and(untested)}"
    text += "."
    if all(row.central for row in above):
        text += " No federated method is above it."
    return text


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _done(table: Table, data: Data, ledger: Ledger) -> dict[str, Records]:
    """The finished cells of a dataset under clean, by row."""
    done: dict[str, Records] = {}
    for row in table.rows_of(data):
        start = f"{Place(row, data, 'clean').key} | seed "
        cells = sorted((r["seed"], key) for key, r in ledger.cells.items() if key.startswith(start))
        records = [ledger.cells[key] for _, key in cells]
        if finished := [record for record in records if record["status"] == "done"]:
            done[row.name] = finished
    return done


def _standing(records: Records, metric: Metric) -> Standing:
    values = [record["metrics"][metric_key(metric)] for record in records]
    central = records[0]["engine"].startswith("central")
    return Standing(records[0]["row"], float(np.mean(values)), central=central)
