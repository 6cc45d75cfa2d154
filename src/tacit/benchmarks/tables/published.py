"""A table that was published goes on where it stands, on whatever machine: nothing that is written
down is run again, and nothing is lost by publishing once more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tacit.benchmarks.tables.ledger import Ledger


def take_over(ledger: Ledger, folder: Path) -> Ledger:
    """What a folder of published results knows of a table; timings and tests are added to its
    ledger here, where there are none. A timing of another machine is a guess.

    >>> take_over(Ledger("few", Path("few/table-few.json")), Path("no such folder")).cells
    {}
    """
    published = Ledger.read(ledger.table, folder / ledger.path.name)
    for key, timing in published.timings.items():
        if key not in ledger.timings and timing.how != "guessed":
            ledger.timings[key] = replace(timing, how="published")
    ledger.tests = published.tests | ledger.tests
    return published
