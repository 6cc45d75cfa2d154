"""A watcher that ends a run when its time is over; what was done is kept and goes on later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacit.experiment.prepare import Prepared
from tacit.experiment.run import RunInterruptedError, Watcher
from tacit.experiment.spec import Experiment


class OutOfTimeError(RunInterruptedError):
    """The budget ended within a run; its checkpoints are on disk."""


class Deadline:
    """Passes everything on to another watcher, and stops after the first round past `end`.

    >>> from tacit.experiment.run import Silent
    >>> Deadline(Silent(), clock=lambda: 5.0, end=4.0).round({"round": 3}, None)
    Traceback (most recent call last):
    tacit.benchmarks.tables.deadline.OutOfTimeError: The budget ended after round 3.
    """

    def __init__(self, watch: Watcher, clock: Callable[[], float], end: float) -> None:
        self.watch, self.clock, self.end_at = watch, clock, end
        self.rounds = 0

    def begin(self, experiment: Experiment, prepared: Prepared, engine: str, rounds: int) -> None:
        self.rounds = rounds
        self.watch.begin(experiment, prepared, engine, rounds)

    def round(self, record: dict[str, Any], best: float | None) -> None:
        self.watch.round(record, best)
        # after the last round only the result is missing: throwing that away would save nothing
        if self.clock() > self.end_at and record["round"] != self.rounds:
            raise OutOfTimeError(f"The budget ended after round {record['round']}.")

    def end(self) -> None:
        self.watch.end()
