"""One cell: choose its setting where that is still open, run it, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.benchmarks.tables.cells import Cell, experiment_of, folder_of
from tacit.benchmarks.tables.deadline import Deadline, OutOfTimeError
from tacit.benchmarks.tables.definition import Setting, Table
from tacit.benchmarks.tables.record import done_record, undone_record
from tacit.benchmarks.tables.search import choose, withdraw
from tacit.benchmarks.tables.timing import Timing
from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.data_record import DataNow
from tacit.experiment.run import RunInterruptedError, Silent, Watcher, run


@dataclass
class Work:
    """All that a cell needs, by value, so that it can be done in another process as well.

    `note` is the place's choice as far as it was made, `end` a reading of the monotonic clock.

    >>> from tacit.benchmarks.tables.cells import Place
    >>> from tacit.benchmarks.tables.definition import Data, Row
    >>> row, data = Row("popularity", "popularity", rounds=1, free=True), Data("planted")
    >>> table = Table("few", "Few", (row,), (data,), (("full", "HR@10"),), 1)
    >>> Work(table, Cell(Place(row, data, "clean"), 0), Path("few"), Timing(0, 1, 0), None).hours
    '0.00028 h'
    """

    table: Table
    cell: Cell
    out: Path
    timing: Timing
    note: dict[str, Any] | None
    end: float = float("inf")
    threads: int = 1

    @property
    def hours(self) -> str:
        """What the run alone takes."""
        row = self.cell.place.row
        return f"{self.timing.run(row.rounds, row.evaluate_every) / 3600:.2g} h"


@dataclass
class Outcome:
    """What is known of a cell after it was worked on."""

    cell: Cell
    record: dict[str, Any]
    note: dict[str, Any] | None
    timing: Timing
    interrupted: bool = False


def do(
    work: Work,
    save: Callable[[dict[str, Any]], None] = lambda note: None,
    watch: Watcher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Do a cell; `save` is handed the choice after every setting that was tried."""
    cell, place = work.cell, work.cell.place
    choices = {} if work.note is None else {place.key: work.note}
    watch = Deadline(watch or Silent(), clock, work.end)
    outcome = Outcome(cell, {}, work.note, work.timing)

    def keep() -> None:
        outcome.note = choices[place.key]
        save(outcome.note)

    try:
        while not outcome.record:
            setting = choose(work.table, place, choices, keep, work.threads, watch)
            seconds = work.timing.run(place.row.rounds, place.row.evaluate_every)
            if clock() + seconds > work.end:  # the search took longer than was thought
                outcome.record = _undone(work, f"about {work.hours}")
                break
            try:
                _run(work, setting, watch, clock, outcome)
            except DivergedError:  # the search was too short to see it: the next best, then
                if place.key not in choices:
                    raise
                withdraw(choices[place.key])
                keep()
    except OutOfTimeError as stop:
        outcome.record = _undone(work, f"about {work.hours}; {str(stop).rstrip('.')}")
    except (RunInterruptedError, KeyboardInterrupt):
        outcome.record = _undone(work, f"about {work.hours}")
        outcome.interrupted = True
    except TacitError as error:
        outcome.record = _undone(work, str(error).rstrip("."))
    return outcome


def _undone(work: Work, why: str) -> dict[str, Any]:
    return undone_record(work.cell, f"not run ({why})")


def _run(
    work: Work, setting: Setting, watch: Watcher, clock: Callable[[], float], outcome: Outcome
) -> None:
    cell = work.cell
    experiment = experiment_of(work.table, cell.place, setting, cell.seed)
    folder = folder_of(work.out, cell.place, experiment)
    if folder.finished:  # with a setting that was chosen before, perhaps on another device
        DataNow().require(experiment, folder)
        outcome.record = done_record(work.table, cell, folder, work.out, setting)
        return
    fresh, before = not folder.experiment_file.exists(), clock()
    result = run(
        experiment,
        folder.path,
        threads=work.threads,
        resume=True,
        watch=watch,
        keep_model=False,
    )
    if fresh:  # a run that goes on says little of what a whole one costs
        expected = work.timing.run(result["rounds_run"], experiment.evaluate_every)
        outcome.timing = work.timing.corrected(expected, clock() - before)
    outcome.record = done_record(work.table, cell, folder, work.out, setting)
