"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from tacit.cli.output import printable
from tacit.experiment.callbacks import Callback, Validation

if TYPE_CHECKING:
    from rich.progress import Progress

    from tacit.experiment.record import RunRecord
    from tacit.experiment.spec import Experiment


# How far the work on items, models or draws is, on stderr: a bar on a terminal, else a line now
# and then.

LINE_SECONDS = 10.0


def _shown(label: str, total: int, *, numbers: bool = False) -> Progress | None:
    """A bar on a terminal, perhaps with numbers beside it; None elsewhere."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        *([TextColumn("{task.fields[numbers]}", markup=False)] if numbers else []),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    progress.add_task(label, total=total, numbers="")
    progress.start()
    return progress


class ItemsBar:
    """Items done and the time that is left; `unit` is what they are called."""

    def __init__(self, unit: str = "items") -> None:
        self.unit = unit
        self.progress: Progress | None = None
        self.label, self.total, self.done = "", 0, 0
        self.said_at = 0.0

    def begin(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self.said_at = time.monotonic()
        self.progress = _shown(label, total)

    def advance(self, done: int) -> None:
        self.done = done
        if self.progress is not None:
            self.progress.update(self.progress.task_ids[0], completed=done)
        elif time.monotonic() - self.said_at > LINE_SECONDS:
            self.said_at = time.monotonic()
            typer.echo(f"{self.label}: {done}/{self.total} {self.unit}", err=True)

    def end(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


# A run's progress on stderr: a bar on a terminal, a plain line now and then elsewhere; and a word
# while kernels compile.

COMPILING = "compiling kernels, once: this may take a minute"
QUIET_SECONDS = 5.0  # between two compilations that are one to people
_told: list[object] = []  # who listens to the compiler: nobody, or one


class Bar(Callback):
    """Round, loss, validation, best so far and the time that is left."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.found: Validation | None = None
        self.label, self.rounds = "", 0
        self.said_at = 0.0

    def begin(self, experiment: Experiment, rounds: int, engine: str) -> None:
        self.found = None
        self.label = printable(f"{experiment.label}, seed {experiment.seed}")
        self.rounds = rounds
        self.said_at = time.monotonic()
        self.progress = _shown(self.label, rounds, numbers=True)

    def validation(self, found: Validation) -> None:
        self.found = found

    def round(self, number: int, loss: float | None) -> None:
        numbers = self._numbers(number, loss)
        if self.progress is not None:
            self.progress.update(self.progress.task_ids[0], completed=number, numbers=numbers)
        elif time.monotonic() - self.said_at > LINE_SECONDS:
            self.said_at = time.monotonic()
            typer.echo(f"{self.label}: round {number}/{self.rounds} {numbers}", err=True)

    def end(self, record: RunRecord | None) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def _numbers(self, number: int, loss: float | None) -> str:
        parts = [] if loss is None else [f"loss {loss:.4f}"]  # an audit only counts its rounds
        if self.found is not None:
            if self.found.round == number:
                parts.append(f"{self.found.metric} {self.found.value:.4f}")
            parts.append(f"best {self.found.best:.4f}")
        return "  ".join(parts)


def tell_of_compiling() -> None:
    """From now on a word goes to stderr when kernels are compiled, not when they are loaded.

    Kernels of one round compile one after another, and some within others: that is one word.
    """
    if _told:
        return
    from numba.core import event

    class Word(event.Listener):
        def __init__(self) -> None:
            self.depth, self.ended = 0, float("-inf")

        def on_start(self, event: object) -> None:
            if self.depth == 0 and time.monotonic() - self.ended > QUIET_SECONDS:
                typer.echo(COMPILING, err=True)
            self.depth += 1

        def on_end(self, event: object) -> None:
            self.depth, self.ended = self.depth - 1, time.monotonic()

    _told.append(Word())
    event.register("numba:compile", _told[0])
