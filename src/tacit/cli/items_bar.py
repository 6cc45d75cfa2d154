"""How far the encoding of items is, on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_SECONDS = 10.0


class ItemsBar:
    """Items done and the time that is left."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.label, self.total, self.done = "", 0, 0
        self.said_at = 0.0

    def begin(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self.said_at = time.monotonic()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self.progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.progress.add_task(label, total=total)
            self.progress.start()

    def advance(self, done: int) -> None:
        self.done = done
        if self.progress is not None:
            self.progress.update(self.progress.task_ids[0], completed=done)
        elif time.monotonic() - self.said_at > LINE_SECONDS:
            self.said_at = time.monotonic()
            typer.echo(f"{self.label}: {done}/{self.total} items", err=True)

    def end(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
