"""`tacit analyse`: figures and numbers from finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show, warn
from tacit.cli.settings import cores, ready_to_compute


def analyse(
    name: Annotated[
        str,
        typer.Argument(
            help="embeddings, inference, curves, groups, gates, router, modalities, clouds or cost."
        ),
    ],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    user: Annotated[
        str | None, typer.Option(help="embeddings, modalities: a user id. Default: median history.")
    ] = None,
    projection: Annotated[
        str | None, typer.Option(help="embeddings, modalities: pca (default) or tsne.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="curves: HR@10 (default), NDCG@10, ..; cold split: Recall@20, .."),
    ] = None,
    ranking: Annotated[
        str | None, typer.Option(help="curves: full (default) or sampled99.")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="groups, router: so many distinct users, followers.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to. Default: RUN/analysis.")
    ] = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Look into finished runs: a figure (PNG and SVG), its numbers (CSV), and a short table."""
    from tacit.analysis.analyses import analyse as analyse_runs
    from tacit.cli.output import plain_table
    from tacit.cli.progress import Bar

    flags = options.given(user=user, projection=projection, metric=metric, ranking=ranking, n=n)
    ready_to_compute()
    finding, files = analyse_runs(
        name, runs, out, names=None, threads=cores(), callbacks=Bar(), warn=warn, **flags
    )
    if as_json:
        tables = {table.name: table.records() for table in (*finding.tables, *finding.unprinted)}
        say_json(
            {
                "analysis": name,
                "runs": [str(run) for run in runs],
                "tables": tables,
                "sentences": finding.sentences,
                "files": [str(path) for path in files],
            }
        )
        return
    for table in finding.tables:
        if len(runs) == 1:  # its name in every row would only take room
            table = table.without("run")
        numbers = len(table.columns) - table.words
        show(plain_table(table.title, table.header, table.texts(), numbers=numbers))
    for sentence in finding.sentences:
        say(f"note      {sentence}")
    for path in files:
        say(f"written   {path}")
