"""`tacit bench`: how fast this machine is, and how accurate what runs on it."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli import options
from tacit.cli.machine import one_torch_thread
from tacit.cli.output import say, say_json


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="A short version.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run the benchmarks."""
    from tacit.benchmarks.bench import bench as run_benchmarks

    one_torch_thread()

    def to_stderr(line: str) -> None:
        typer.echo(line, err=True)

    results = run_benchmarks(to_stderr if as_json else say, quick=quick)
    if as_json:
        say_json(results)
