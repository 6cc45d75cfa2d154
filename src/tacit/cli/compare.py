"""`tacit compare`: several methods, several seeds, one table."""

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

    from tacit.study.compare import Comparison


@options.with_flags
def compare(
    contenders: Annotated[
        list[str],
        typer.Argument(metavar="METHOD...", help="Methods (fedmf+clip:bound=1), or run folders."),
    ],
    *,
    flags: options.ExperimentFlags,
    seeds: Annotated[int, typer.Option(help="Run with seeds 0 to N-1.", metavar="N")] = 3,
    threads: options.Threads = None,
    metric: Annotated[str, typer.Option(help="What is tested, on the full ranking.")] = "NDCG@10",
    against: Annotated[
        str, typer.Option(help="The row that others are tested against: first, best or a name.")
    ] = "first",
    out: options.Out = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Compare methods user by user; runs that are finished are used again."""
    from tacit.cli.progress import Bar
    from tacit.study.compare import compare as compare_methods

    given = flags.given()
    if out is None and not all(Path(name, "experiment.toml").is_file() for name in contenders):
        out = _default_out(flags.data, flags.protocol)
    ready_to_compute()
    comparison = compare_methods(
        contenders,
        out,
        seeds=seeds,
        metric=metric,
        against=against,
        threads=threads or cores(),
        callbacks=Bar(),
        **given,
    )
    if as_json:
        say_json(asdict(comparison))
        return
    show_comparison(comparison)
    if out is not None:
        say(f"written   {out / 'compare.md'} and {out / 'compare.json'}")


def show_comparison(comparison: Comparison) -> None:
    """The table and what it says."""
    from tacit.study.compare import protocol_warning, sentences

    show(comparison_table(comparison))
    if warning := protocol_warning(comparison.protocol, comparison.clean):
        say(warning)
    say(
        f"protocol  {comparison.protocol}, split {comparison.split}, {comparison.users} users; "
        f"tested against {comparison.against}, paired over users, Holm over methods"
    )
    for words in dict.fromkeys(row.privacy for row in comparison.rows):
        said = ", ".join(row.name for row in comparison.rows if row.privacy == words)
        say(f"privacy   {words}: {said}")
    for line in sentences(comparison):
        say(f"result    {line}")
    for note in comparison.notes:
        say(f"note      {note}")


def comparison_table(comparison: Comparison) -> Table:
    """One row per method, then popularity and chance."""
    from tacit.cli.output import plain_table
    from tacit.experiment.amounts import DASH, bytes_text, metric_text
    from tacit.study.compare import (
        difference_text,
        other_columns,
        p_text,
        spread_text,
    )

    metric = comparison.metric
    # the terminal has room for hits alone, in both rankings
    others = {title: at for title, at in other_columns(metric).items() if at[1] == "HR@10"}
    rows = [
        [
            row.name,
            metric_text(row.value),
            spread_text(row.spread),
            difference_text(row.difference),
            p_text(row.p_holm),
            *(metric_text(row.metrics[kind][name]) for kind, name in others.values()),
            bytes_text(row.cost["bytes_up"]),
        ]
        for row in comparison.rows
    ]
    named = {row.name for row in comparison.rows}
    for name, values in comparison.reference.items():
        if name not in named:
            hits = [metric_text(values[kind][other]) for kind, other in others.values()]
            first = metric_text(values["full"][metric])
            rows.append([name, first, *[DASH] * 3, *hits, DASH])
    columns = [
        "",
        metric,
        "over seeds",
        f"against {comparison.against}",
        "p (Holm)",
        *("HR@10 vs 99" if kind == "sampled99" else name for kind, name in others.values()),
        "bytes up",
    ]
    numbers = len(columns) - 1
    return plain_table(f"{comparison.dataset}, full ranking", columns, rows, numbers=numbers)


def _default_out(data: str | None, protocol: str | None) -> Path:
    from tacit.experiment.names import shared_folder, slug

    rules = slug(protocol or "clean")
    return shared_folder(Path("runs"), data or "planted", lambda name: f"compare-{name}-{rules}")
