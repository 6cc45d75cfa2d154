"""`python -m lab.table`: a published table made again, cell by cell."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lab.definition import Table, load_table, table_names
from lab.fill import Filling, Only
from tacit.cli import settings as options
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import cores, ready_to_compute
from tacit.engines.select import require_device

PUBLISHED = Path("docs", "results")

app = typer.Typer(name="lab.table", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def table(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which table; without one, all are named.")
    ] = None,
    budget: Annotated[
        float, typer.Option(help="Hours; nothing is begun after them.", metavar="HOURS")
    ] = 1.4,
    seeds: Annotated[
        int | None,
        typer.Option(help="Run with seeds 0 to N-1. Default: the table's own.", metavar="N"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to. Default: runs/tables/NAME.")
    ] = None,
    only: Only = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the table to docs/results as well.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Rows at the same time. Default: the cores.", metavar="N")
    ] = None,
    threads: options.Threads = None,
    device: options.Device = None,
) -> None:
    """Make a published table again; finished cells are used again, and a stopped table goes on."""
    if name is None:
        for one in map(load_table, table_names()):
            say(f"{one.name:28s}{one.title}: {_size(one)}")
        return
    asked = load_table(name)
    ready_to_compute()
    if device is not None:
        require_device(device)
    home = Path("runs", "tables")
    others = [other for other in table_names() if other != name]
    filling = Filling(
        replace(asked, device=device or "cpu"),
        out or home / name,
        seeds=asked.seeds if seeds is None else seeds,
        budget=budget * 3600,
        only=only or (),
        threads=threads or 1,
        workers=workers if workers is not None else cores(),
        reuse=[home / other for other in others] if out is None else [],
        published=PUBLISHED if out is None else None,
        publish=PUBLISHED if publish else None,
        callbacks=Bar(),
        report=say,
    )
    filling.fill()
    say(f"written   {filling.markdown_file} and {filling.results.path}")


def _size(one: Table) -> str:
    return f"{len(one.rows)} rows, {', '.join(data.name for data in one.datasets)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
