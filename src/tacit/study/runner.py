"""One runner for many jobs: in order, several at a time, until the budget ends; go on later.

A job is whatever takes long: one run of a study, or the search and the runs of a table's row. The
runner begins no job after the end of the budget, and a job that is still at work then stops
between two rounds. Checkpoints and finished runs stay on disk, so the same command goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from threading import Thread
from typing import Generic, TypeVar

from tacit.errors import TacitError, speak_as, speaks_of_flags
from tacit.experiment.callbacks import Callback, Callbacks, Validation, together
from tacit.experiment.record import RunRecord
from tacit.experiment.run import RunInterruptedError
from tacit.experiment.spec import Experiment


class OutOfTimeError(RunInterruptedError):
    """The budget ended within a run; its checkpoint is on disk."""


class Deadline(Callback):
    """Passes everything on to another callback, and stops after the first round past `end`.

    >>> Deadline(Callback(), end=4.0, clock=lambda: 5.0).round(3, None)
    Traceback (most recent call last):
    tacit.study.runner.OutOfTimeError: The budget ended after round 3.
    """

    def __init__(
        self, other: Callback, end: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.other, self.end_at, self.clock = other, end, clock
        self.rounds = 0

    def begin(self, experiment: Experiment, rounds: int, engine: str) -> None:
        self.rounds = rounds
        self.other.begin(experiment, rounds, engine)

    def validation(self, found: Validation) -> None:
        self.other.validation(found)

    def round(self, number: int, loss: float | None) -> None:
        self.other.round(number, loss)
        # after the last round only the result is missing: throwing that away would save nothing
        if self.clock() > self.end_at and number != self.rounds:
            raise OutOfTimeError(f"The budget ended after round {number}.")

    def end(self, record: RunRecord | None) -> None:
        self.other.end(record)


@dataclass
class JobOutcome:
    """What a job came to; `interrupted` says that somebody pressed Ctrl-C."""

    interrupted: bool = field(default=False, kw_only=True)


Result = TypeVar("Result", bound=JobOutcome)


@dataclass(frozen=True)
class Job(Generic[Result]):
    """Something to do. With several workers `do` travels to another process, so it must be a
    function of a module, or a `functools.partial` of one."""

    key: str
    do: Callable[[Callback], Result]


@dataclass
class Runner:
    """How jobs are run: `workers` at the same time, none begun after `budget` seconds.

    >>> def double(number: int, callback: Callback) -> JobOutcome:
    ...     print(2 * number)
    ...     return JobOutcome()
    >>> from functools import partial
    >>> jobs = [Job(str(number), partial(double, number)) for number in (1, 2)]
    >>> Runner().run(jobs, lambda job, outcome: None)
    2
    4
    >>> Runner(budget=0.0)
    Traceback (most recent call last):
    tacit.errors.TacitError: The budget is 0 hours; it must be above 0.
    """

    workers: int = 1
    budget: float = float("inf")  # seconds
    callbacks: Callbacks = ()
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise TacitError(f"workers is {self.workers}; use at least 1.")
        if not self.budget > 0:
            raise TacitError(f"The budget is {self.budget / 3600:g} hours; it must be above 0.")
        self.end = self.clock() + self.budget

    @property
    def out_of_time(self) -> bool:
        return self.clock() >= self.end

    def run(
        self, jobs: Iterable[Job[Result] | None], absorb: Callable[[Job[Result], Result], None]
    ) -> Job[Result] | None:
        """Do jobs until they or the time are over; the job during which somebody stopped it, or
        None. `jobs` may be a generator: it is asked for the next one when there is room for it,
        and gives None while the next one depends on jobs under way. `absorb` takes what came out,
        here and not in the processes."""
        asked = self._while_time_lasts(jobs)
        return self._side_by_side(asked, absorb) if self.workers > 1 else self._one(asked, absorb)

    def _while_time_lasts(self, jobs: Iterable[Job[Result] | None]) -> Iterator[Job[Result] | None]:
        for job in jobs:
            if self.out_of_time:
                return
            yield job

    def _one(
        self, jobs: Iterator[Job[Result] | None], absorb: Callable[[Job[Result], Result], None]
    ) -> Job[Result] | None:
        for job in jobs:
            assert job is not None, "nothing is under way here that a job could depend on"
            outcome = job.do(Deadline(together(self.callbacks), self.end, self.clock))
            absorb(job, outcome)
            if outcome.interrupted:
                return job
        return None

    def _side_by_side(
        self, jobs: Iterator[Job[Result] | None], absorb: Callable[[Job[Result], Result], None]
    ) -> Job[Result] | None:
        flying: dict[Future[Result], Job[Result]] = {}
        stopped: Job[Result] | None = None
        with process_pool(self.workers) as pool:
            while True:
                try:
                    while stopped is None and len(flying) < self.workers:
                        job = next(jobs, None)
                        if job is None:
                            break
                        silent = Deadline(Callback(), self.end)
                        flying[pool.submit(job.do, silent)] = job
                    if not flying:
                        return stopped
                    done, _ = wait(flying, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt:  # the processes have heard it too, and end their round
                    stopped = next(iter(flying.values()), stopped)
                    if stopped is None:
                        raise
                    continue
                for future in done:
                    job = flying.pop(future)
                    try:
                        outcome = future.result()
                    except BrokenProcessPool:  # it was idle, or importing, when it heard Ctrl-C
                        stopped = stopped or job
                        continue
                    absorb(job, outcome)
                    if outcome.interrupted:
                        stopped = stopped or job


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Processes of one thread each, spawned and not forked: compiled kernels and their threads do
    not survive a fork."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=_ready, initargs=(speaks_of_flags(),)
    )


def _ready(with_flags: bool) -> None:
    import torch

    speak_as(with_flags)
    torch.set_num_threads(1)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot shut its pool down, and its processes would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
