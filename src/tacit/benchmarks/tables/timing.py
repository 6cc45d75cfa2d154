"""How long a cell takes: measured on two rounds, guessed from a smaller dataset, recorded, or
published by another machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tacit.benchmarks.tables.cells import Place
from tacit.benchmarks.tables.definition import Row
from tacit.data.sources import SOURCES
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import prepare
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import course_of

LONG_ROUND = 60.0  # seconds: after such a first round, compiling included, no second one is timed
PROBE_SECONDS = 20.0  # a probe that would take longer than this by a guess is not made


@dataclass(frozen=True)
class Timing:
    """Seconds before the first round, of a round, and of ranking one held-out part.

    >>> Timing(start=1.0, round=0.5, evaluation=0.25).run(rounds=10, every=5)
    8.0
    """

    start: float
    round: float
    evaluation: float
    how: Literal["measured", "guessed", "recorded", "published"] = "measured"

    def run(self, rounds: int, every: int) -> float:
        """A whole run: each look may rank the test part too, and the result ranks references."""
        looks = math.ceil(rounds / every)
        return self.start + rounds * self.round + (2 * looks + 4) * self.evaluation

    def search(self, row: Row) -> float:
        """All settings of a row on validation; nothing where there is nothing to choose."""
        if len(row.settings) < 2:
            return 0.0
        looks = math.ceil(row.search_rounds / row.evaluate_every)
        each = row.search_rounds * self.round + looks * self.evaluation
        return self.start + len(row.settings) * each

    def corrected(self, expected: float, seconds: float) -> Timing:
        """After a run that was expected to take so long and took so long."""
        factor = seconds / expected if expected > 0 else 1.0
        return Timing(
            self.start * factor, self.round * factor, self.evaluation * factor, "recorded"
        )


def probe(experiment: Experiment, threads: int, clock: Callable[[], float]) -> Timing:
    """Time up to two rounds and the ranking of validation; the first of each may compile.

    >>> from time import perf_counter
    >>> from tacit.experiment.resolve import resolve
    >>> probe(resolve("popularity"), 1, perf_counter).round < 10
    True
    """
    begun = clock()
    prepared = prepare(experiment)
    course = course_of(experiment, prepared.split.train, threads)
    ready = clock()
    seconds, looks = [], []
    for number in range(min(2, course.rounds)):
        before = clock()
        course.advance()
        between = clock()
        rank(course.scores(), prepared.split.valid)
        seconds.append(between - before)
        looks.append(clock() - between)
        if number == 0 and clock() - before > LONG_ROUND:
            break
    return Timing(ready - begun, min(seconds), min(looks))


def guess(known: Timing, place: Place, other: str, *, tables: bool = True) -> Timing | None:
    """A timing on the source `other` from one on a place's source, by their sizes.

    Ranking grows with users times items; a round with interactions, or with users times items where
    every device holds a table of its own: the larger of the two is taken, or with `tables=False`
    interactions alone, the least that a round can take.

    >>> from tacit.benchmarks.tables.definition import Data
    >>> at = Place(Row("fedmf", "fedmf"), Data("ml-100k"), "clean")
    >>> round(guess(Timing(1.0, 0.1, 0.1), at, "ml-1m").round, 2)
    1.41
    >>> round(guess(Timing(1.0, 0.1, 0.1), at, "ml-1m", tables=False).round, 2)
    1.0
    """
    if place.data.source not in SOURCES or other not in SOURCES:
        return None
    small, large = SOURCES[place.data.source].statistics, SOURCES[other].statistics
    rows = large["interactions"] / small["interactions"]
    pairs = large["users"] * large["items"] / (small["users"] * small["items"])
    a_round = known.round * (max(rows, pairs) if tables else rows)
    return Timing(known.start * rows, a_round, known.evaluation * pairs, how="guessed")


def probe_seconds(timing: Timing) -> float:
    """How long a probe takes where a cell takes this."""
    return timing.start + 2 * (timing.round + timing.evaluation)
