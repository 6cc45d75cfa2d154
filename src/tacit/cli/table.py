"""`tacit table`: a printed table re-made, cell by cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say
from tacit.cli.settings import cores, ready_to_compute
from tacit.errors import TacitError, nearest

if TYPE_CHECKING:
    from tacit.benchmarks.tables.definition import Table

PUBLISHED = Path("docs", "results")


def table(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which table; without one, all are named.")
    ] = None,
    budget: Annotated[
        float, typer.Option(help="Hours; cells that do not fit are not begun.", metavar="HOURS")
    ] = 1.4,
    seeds: Annotated[
        int | None,
        typer.Option(help="Run with seeds 0 to N-1. Default: the table's own.", metavar="N"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to. Default: runs/tables/NAME.")
    ] = None,
    only: Annotated[
        str, typer.Option(help="Only cells with these words in 'row | dataset | column | seed K'.")
    ] = "",
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Time two rounds of each, print the plan and stop.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the table to docs/results as well.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Cells at the same time. Default: the cores.", metavar="N")
    ] = None,
    threads: options.Threads = None,
    device: options.Device = None,
) -> None:
    """Re-make a printed table honestly; finished cells are used again."""
    from tacit.benchmarks.tables import TABLES
    from tacit.benchmarks.tables.fill import Filling
    from tacit.cli.progress import Bar
    from tacit.experiment.trainer import require_device

    if name is None:
        for one in TABLES.values():
            say(f"{one.name:21s}{one.title}: {_size(one)}")
        return
    if name not in TABLES:
        raise TacitError(f"Unknown table {name!r}; {nearest(name, TABLES)}")
    ready_to_compute()
    if device is not None:
        require_device(device)
    home = Path("runs", "tables")
    filling = Filling(
        replace(TABLES[name], device=device or "cpu"),
        out or home / name,
        seeds=TABLES[name].seeds if seeds is None else seeds,
        budget=budget * 3600,
        only=only,
        threads=threads or 1,
        workers=workers if workers is not None else cores(),
        lenders=[home / other for other in TABLES if other != name] if out is None else [],
        published=PUBLISHED if out is None else None,
        publish=PUBLISHED if publish else None,
        watch=Bar(),
        report=say,
    )
    if estimate:
        filling.plan()
        filling.ledger.write()  # what was timed need not be timed again
        return
    filling.fill()
    say(f"written   {filling.markdown_file} and {filling.ledger.path}")


def _size(one: Table) -> str:
    return f"{len(one.rows)} rows, {', '.join(data.name for data in one.datasets)}"
