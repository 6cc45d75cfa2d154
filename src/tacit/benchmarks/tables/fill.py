"""Fill a table cell by cell within a budget of time; what is finished is used again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tacit.benchmarks.tables.borrow import borrow
from tacit.benchmarks.tables.cells import Cell, Place
from tacit.benchmarks.tables.definition import Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.markdown import as_markdown
from tacit.benchmarks.tables.plan import (
    PROBE_SHARE,
    Probe,
    Problem,
    cells_wanted,
    forecast,
    measure,
    order,
    seconds_of,
    timing_key,
)
from tacit.benchmarks.tables.published import take_over
from tacit.benchmarks.tables.record import scan, undone_record
from tacit.benchmarks.tables.search import chosen_setting, later_note
from tacit.benchmarks.tables.timing import probe as time_two_rounds
from tacit.benchmarks.tables.verdict import verdict
from tacit.benchmarks.tables.work import Outcome, Work, do
from tacit.benchmarks.tables.workers import Pool
from tacit.errors import TacitError
from tacit.experiment.amounts import seconds_text
from tacit.experiment.run import RunInterruptedError, Silent, Watcher
from tacit.files import write_text

RESERVE = 0.02  # of the budget, for the last files
RESERVE_SECONDS = 60.0  # and never more than this


def _silent(line: str) -> None:
    pass


@dataclass
class Filling:
    """One filling of a table; `fill()` does everything.

    `clock` and `probe` are there so that a test can hold the time in its hands.
    """

    table: Table
    out: Path
    seeds: int
    budget: float = 1.4 * 3600  # seconds
    only: str = ""
    threads: int = 1  # of one cell
    workers: int = 1  # cells at the same time
    lenders: list[Path] = field(default_factory=list)  # folders of tables that may share runs
    published: Path | None = None  # a folder of results, made anywhere, to go on from
    publish: Path | None = None
    watch: Watcher = field(default_factory=Silent)
    report: Callable[[str], None] = _silent
    clock: Callable[[], float] = time.monotonic
    probe: Probe = time_two_rounds

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise TacitError(f"seeds is {self.seeds}; run at least 1.")
        if self.workers < 1:
            raise TacitError(f"workers is {self.workers}; use at least 1.")
        if not 0 < self.budget < float("inf"):
            raise TacitError(f"The budget is {self.budget / 3600:g} hours; it must be above 0.")
        if self.publish is not None and not self.publish.is_dir():
            raise TacitError(f"There is no folder {str(self.publish)!r} to publish into.")
        stem = f"table-{self.table.name}"
        self.markdown_file = self.out / f"{stem}.md"
        self.ledger = Ledger.read(self.table.name, self.out / f"{stem}.json")
        reserve = min(RESERVE * self.budget, RESERVE_SECONDS)
        self.begun = self.clock()
        self.end = self.begun + self.budget - reserve

    def plan(self) -> list[Cell]:
        """Time what is missing, say what it will cost, and put it in order."""
        known, lenders = None, self.lenders
        if self.published is not None:
            known = take_over(self.ledger, self.published)
            lenders = [self.published, *lenders]  # of its choices: its runs ran anywhere
        taken = borrow(self.table, self.out, self.ledger, self.seeds, lenders)
        if taken:
            self.report(f"borrowed  {taken} finished cells from tables with the same experiments")
        scan(self.table, self.out, self.ledger, self.seeds, known)
        if elsewhere := [r for r in self.ledger.cells.values() if self._elsewhere(r)]:
            self.report(f"published {len(elsewhere)} finished cells stand as they were published")
        wanted = cells_wanted(self.table, self.seeds, self.only)
        if not wanted:
            raise TacitError(f"No cell of {self.table.name} has {self.only!r} in its name.")
        missing = [cell for cell in wanted if not self._done(cell)]
        places = list(dict.fromkeys(cell.place for cell in missing))
        end = self.begun + PROBE_SHARE * self.budget
        problems = measure(
            self.table, places, self.ledger, self.probe, self.threads, self.clock, end
        )
        asked = {cell.key for cell in wanted}
        able: list[Cell] = []
        for cell in cells_wanted(self.table, self.seeds, ""):
            problem = problems.get(timing_key(cell.place.row, cell.place.data))
            if self._done(cell):
                continue
            if cell.key not in asked:
                self._undone(cell, "left out by --only")
            elif isinstance(problem, Problem):
                self._undone(cell, problem.sentence)
            else:
                able.append(cell)
                self._does_not_fit(cell)
        ordered = order(self.table, able, self.ledger)
        left = self.workers * (self.end - self.clock())
        total, fitting, lines = forecast(self.table, ordered, self.ledger, left)
        for line in lines:
            self.report(f"estimate  {line}")
        self.report(
            f"plan      {len(wanted)} cells, {len(wanted) - len(missing)} finished, "
            f"{len(missing) - len(able)} cannot run; the other {len(able)} take about "
            f"{seconds_text(total)}; {fitting} fit the budget of {self.budget / 3600:g} h"
        )
        return ordered

    def fill(self) -> Ledger:
        """Run what fits, in order, and write the table after every cell."""
        ordered = self.plan()
        self._write()
        last = self._side_by_side if self.workers > 1 else self._one_by_one
        if (cell := last(ordered)) is not None:
            self._write()
            raise RunInterruptedError(
                f"Stopped during {cell.key}; give the same command again to continue."
            )
        self._write(last=True)
        return self.ledger

    def _one_by_one(self, ordered: Sequence[Cell]) -> Cell | None:
        for cell in ordered:
            work = self._begin(cell)
            if work is None:
                continue
            outcome = do(work, partial(self._save, cell), self.watch, self.clock)
            self._absorb(outcome)
            if outcome.interrupted:
                return cell
        return None

    def _side_by_side(self, ordered: Sequence[Cell]) -> Cell | None:
        with Pool(self.workers) as pool:
            stopped = pool.drive(ordered, self._chosen, self._begin, self._absorb)
        return next(cell for cell in ordered if not self._done(cell)) if stopped else None

    def _chosen(self, cell: Cell) -> bool:
        return chosen_setting(self.table, cell.place, self.ledger.choices) is not None

    def _begin(self, cell: Cell) -> Work | None:
        if self.clock() + seconds_of(self.table, cell, self.ledger) > self.end:
            self._does_not_fit(cell)
            self._write()
            return None
        if self.workers > 1:
            self.report(f"begin     {cell.key}")
        key = timing_key(cell.place.row, cell.place.data)
        timing, note = self.ledger.timings[key], self.ledger.choices.get(cell.place.key)
        return Work(self.table, cell, self.out, timing, note, self.end, self.threads)

    def _save(self, cell: Cell, note: dict[str, Any]) -> None:
        self.ledger.choices[cell.place.key] = note
        self.ledger.write()

    def _absorb(self, outcome: Outcome) -> None:
        cell = outcome.cell
        if outcome.note is not None:
            known = self.ledger.choices.get(cell.place.key)  # another seed's, perhaps the later one
            self.ledger.choices[cell.place.key] = later_note(known, outcome.note)
        self.ledger.timings[timing_key(cell.place.row, cell.place.data)] = outcome.timing
        self.ledger.cells[cell.key] = outcome.record
        self.report(f"cell      {cell.key}: {outcome.record['status']}")
        self._drop_withdrawn(cell.place)
        self._write()

    def _drop_withdrawn(self, place: Place) -> None:
        """All seeds of a row have one setting: where a later seed's run took the choice back, the
        seeds that were finished with it are to be run again, by the next call."""
        setting = chosen_setting(self.table, place, self.ledger.choices) or ()
        for cell in (Cell(place, seed) for seed in range(self.seeds)):
            if self._done(cell) and self.ledger.cells[cell.key]["sets"] != list(setting):
                self._does_not_fit(cell)
                self.report(f"again     {cell.key}: its setting diverged on another seed")

    def _done(self, cell: Cell) -> bool:
        return bool(self.ledger.cells.get(cell.key, {}).get("status") == "done")

    def _elsewhere(self, record: dict[str, Any]) -> bool:
        return not (self.out / record["folder"]).exists()

    def _undone(self, cell: Cell, why: str) -> None:
        self.ledger.cells[cell.key] = undone_record(cell, f"not run ({why})")

    def _does_not_fit(self, cell: Cell) -> None:
        self._undone(cell, f"about {seconds_of(self.table, cell, self.ledger) / 3600:.2g} h")

    def _write(self, last: bool = False) -> None:
        self.ledger.head = {"title": self.table.title, "seeds": self.seeds}
        said = verdict(self.table, self.out, self.ledger) if last else []
        text = as_markdown(self.table, self.ledger, self.seeds, said)
        self.ledger.write()
        write_text(self.markdown_file, text)
        if self.publish is not None:
            write_text(self.publish / self.ledger.path.name, self.ledger.text())
            write_text(self.publish / self.markdown_file.name, text)
