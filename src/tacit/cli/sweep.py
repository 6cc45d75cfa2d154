"""`tacit sweep`: one method over a grid of settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show
from tacit.cli.settings import cores, ready_to_compute

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.study.sweep import Sweep


@options.with_flags
def sweep(
    method: Annotated[str, typer.Argument(help="A method of `tacit list`.")],
    over: Annotated[
        list[str] | None,
        typer.Option(help="A field and its values, part.field=a,b,c; several make a grid."),
    ] = None,
    *,
    flags: options.ExperimentFlags,
    seeds: Annotated[int, typer.Option(help="Run with seeds 0 to N-1.", metavar="N")] = 1,
    threads: options.Threads = None,
    out: options.Out = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Try settings of a method; validation chooses, and runs that are finished are used again."""
    from tacit.cli.progress import Bar
    from tacit.experiment.names import shared_folder, slug
    from tacit.study.sweep import sweep as sweep_method

    given = flags.given()
    if out is None:
        rules = slug(flags.protocol or "clean")
        out = shared_folder(
            Path("runs"), flags.data or "planted", lambda name: f"sweep-{method}-{name}-{rules}"
        )
    ready_to_compute()
    table = sweep_method(
        method, over or [], out, seeds=seeds, threads=threads or cores(), callbacks=Bar(), **given
    )
    if as_json:
        say_json(asdict(table))
        return
    show_sweep(table)
    if len(table.axes) == 2:
        say(f"written   {out / 'sweep-map.png'} and {out / 'sweep-map.svg'}")
    say(f"written   {out / 'sweep.csv'}, {out / 'sweep.png'} and {out / 'sweep.svg'}")


def show_sweep(table: Sweep) -> None:
    """The table, the choice, and what it does not say."""
    from tacit.study.compare import protocol_warning

    show(sweep_table(table))
    if warning := protocol_warning(table.protocol, table.clean):
        say(warning)
    say(f"protocol  {table.protocol}, split {table.split}")
    say(f"privacy   {table.privacy}")
    say(f"choice *  {table.choice}")
    say("note      Test values stand here for completeness; the choice is validation's alone.")
    for note in table.notes:
        say(f"note      {note}")


def sweep_table(table: Sweep) -> Table:
    """One row per setting, in the order of the grid."""
    from tacit.cli.output import plain_table
    from tacit.experiment.amounts import DASH, metric_text
    from tacit.study.sweep import RANKING_WORDS, shown_metrics

    first, second = shown_metrics(table.metric)
    shown = {
        f"test {first}": ("full", first),
        f"test {second}": ("full", second),
        f"test vs 99 {first}": ("sampled99", first),
    }
    rows = []
    for place, row in enumerate(table.rows):
        deviation = "" if row.deviation is None else f" ±{row.deviation:.4f}"
        rows.append(
            [
                *row.values,
                "*" if place == table.chosen else "",
                "diverged" if row.validation is None else metric_text(row.validation) + deviation,
                *(
                    DASH if row.test is None else metric_text(row.test[kind][name])
                    for kind, name in shown.values()
                ),
                " ".join(map(str, row.selected_rounds)) or DASH,
            ]
        )
    columns = [
        *(axis.path for axis in table.axes),
        "",
        f"valid {table.metric}",
        *shown,
        "round",
    ]
    title = f"{table.method} on {table.dataset}, validation: {RANKING_WORDS[table.ranking]}"
    return plain_table(title, columns, rows, numbers=len(columns))
