"""`tacit bench`: how fast the engines are here, against a loop that one would write first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json
from tacit.cli.settings import ready_to_compute


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="A short version.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder to write bench.txt and bench.json to.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure speed, growth, memory and a whole run; only ratios of one run are claims."""
    from tacit.benchmarks.bench import bench as run_benchmarks
    from tacit.files import write_text

    ready_to_compute()
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if as_json:
            typer.echo(line, err=True)
        else:
            say(line)

    results = run_benchmarks(report, quick=quick)
    if out is not None:
        write_text(out / "bench.txt", "\n".join(lines) + "\n")
        write_text(out / "bench.json", json.dumps(results, indent=1))
    if as_json:
        say_json(results)
