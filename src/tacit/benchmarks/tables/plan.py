"""What is to be run, in which order, and how long it will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.benchmarks.tables.cells import Cell, Place, absent, cells_of, experiment_of
from tacit.benchmarks.tables.definition import Data, Row, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.search import chosen_setting
from tacit.benchmarks.tables.timing import PROBE_SECONDS, Timing, guess, probe_seconds
from tacit.errors import TacitError
from tacit.experiment.amounts import seconds_text
from tacit.experiment.spec import Experiment

PROBE_SHARE = 0.1  # of the budget; what is not measured by then is guessed

Probe = Callable[[Experiment, int, Callable[[], float]], Timing]


@dataclass(frozen=True)
class Problem:
    """Why a row cannot be run on a dataset at all."""

    sentence: str


def timing_key(row: Row, data: Data) -> str:
    """Both columns of a row and dataset cost the same.

    >>> timing_key(Row("fedmf", "fedmf"), Data("planted"))
    'fedmf | planted'
    """
    return f"{row.name} | {data.name}"


def measure(
    table: Table,
    wanted: Sequence[Place],
    ledger: Ledger,
    probe: Probe,
    threads: int,
    clock: Callable[[], float],
    end: float,
) -> dict[str, Problem]:
    """A timing for each row and dataset that is wanted; what cannot run comes back, with why."""
    problems: dict[str, Problem] = {}
    known: dict[str, list[tuple[Place, Timing]]] = {}  # by row: where it was timed here
    for place in wanted:  # datasets stand in the order of their cost
        row, key = place.row, timing_key(place.row, place.data)
        if key in problems:
            continue
        if (name := absent(row)) is not None:
            problems[key] = Problem(f"no such method here: {name}")
            continue
        timing = ledger.timings.get(key)
        if timing is None or timing.how in ("guessed", "published"):
            timing = timing if timing is not None and timing.how == "published" else None
            # a guess errs upwards, for rows without tables of their own and where cost grows with
            # items alone; so the least of them says whether to time it
            least = [
                probe_seconds(low)
                for at, measured in known.get(row.name, [])
                if (low := guess(measured, at, place.data.source, tables=False)) is not None
            ]
            if timing is not None:  # another machine's is the better guess
                least = [probe_seconds(timing)]
            elif row.name in known:
                at, measured = known[row.name][-1]
                timing = guess(measured, at, place.data.source)
            if timing is None and clock() >= end:
                problems[key] = Problem("no time left to time it")
                continue
            short = min(least, default=0.0) < PROBE_SECONDS
            if timing is None or (short and clock() < end):
                try:
                    experiment = experiment_of(table, place, place.settings[0], 0)
                    timing = probe(experiment, threads, clock)
                except TacitError as error:
                    problems[key] = Problem(str(error).rstrip("."))
                    continue
            ledger.timings[key] = timing
        if timing.how in ("measured", "recorded"):
            known.setdefault(row.name, []).append((place, timing))
    return problems


def seconds_of(table: Table, cell: Cell, ledger: Ledger) -> float:
    """What a cell still costs, with its search where its settings are not chosen yet."""
    place = cell.place
    timing = ledger.timings[timing_key(place.row, place.data)]
    chosen = chosen_setting(table, place, ledger.choices)
    seconds = run_seconds(place, timing)
    return seconds + (timing.search(place.row) if chosen is None else 0.0)


def run_seconds(place: Place, timing: Timing) -> float:
    """One run of a place, without search."""
    return timing.run(place.row.rounds, place.row.evaluate_every)


def order(table: Table, cells: Sequence[Cell], ledger: Ledger) -> list[Cell]:
    """Cheap cells first, so that a budget fills many; a seed more counts as three times the cost,
    so that most rows have their first before cheap ones have their last."""
    rows = [row.name for row in table.rows]
    cost = {cell.place.key: seconds_of(table, cell, ledger) for cell in cells}

    def key(cell: Cell) -> tuple[float, int, bool]:
        place = cell.place
        # both columns of a row stay together: they are read together
        both = [cost.get(Place(place.row, place.data, c).key, 0.0) for c in place.data.columns]
        return sum(both) * 3**cell.seed, rows.index(place.row.name), place.column == "clean"

    return sorted(cells, key=key)


def forecast(
    table: Table, ordered: Sequence[Cell], ledger: Ledger, budget: float
) -> tuple[float, int, list[str]]:
    """Seconds of all cells, how many of them fit the budget in this order, and a line per cell."""
    total, left, fitting = 0.0, budget, 0
    searched: set[str] = set()
    lines = []
    for cell in ordered:
        place = cell.place
        timing = ledger.timings[timing_key(place.row, place.data)]
        seconds = run_seconds(place, timing)
        if chosen_setting(table, place, ledger.choices) is None and place.key not in searched:
            seconds += timing.search(place.row)
        total += seconds
        fits = seconds <= left
        if fits:
            left, fitting = left - seconds, fitting + 1
            searched.add(place.key)
        words = "" if fits else ", does not fit"
        lines.append(f"{cell.key}: about {seconds_text(seconds)} ({timing.how}){words}")
    return total, fitting, lines


def cells_wanted(table: Table, seeds: int, only: str) -> list[Cell]:
    """All cells of the first seeds whose key holds the text `only`, beginning at a word: PFedRec is
    not meant by the end of GPFedRec.

    >>> rows, data = (Row("fedmf", "fedmf"), Row("mf", "mf")), Data("planted")
    >>> table = Table("few", "Few", rows, (data,), (("full", "HR@10"),), 1)
    >>> [cell.key for cell in cells_wanted(table, 1, "mf | planted")]
    ['mf | planted | clean | seed 0']
    """
    return [cell for cell in cells_of(table, seeds) if f" {only}" in f" {cell.key}"]
