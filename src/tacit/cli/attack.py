"""`tacit attack`: what others can read out of what a run sends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show
from tacit.cli.settings import ready_to_compute

app = typer.Typer(help="Attacks: what others can read out of what a run sends.")


@app.callback()
def attack() -> None:
    """Attacks: what others can read out of what a run sends."""


@app.command("inversion")
def inversion(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs with cold items.")
    ],
    leaked: Annotated[
        float, typer.Option(help="Share of the cold items whose content the attacker knows.")
    ] = 0.2,
    seeds: Annotated[
        int, typer.Option(help="How often: leaked items and attackers are drawn anew.", min=1)
    ] = 5,
    draws: Annotated[
        int, typer.Option(help="Draws of the generator that the attacker averages.", min=1)
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to. Default: RUN/attack.")
    ] = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Reconstruct the content of cold items from their generated embeddings."""
    from rich.text import Text

    from tacit.attack.inversion import invert_runs
    from tacit.attack.page import as_json as as_object
    from tacit.attack.page import notes, text_table, write_page
    from tacit.cli.output import plain_table

    ready_to_compute()
    found = invert_runs(runs, leaked=leaked, seeds=seeds, draws=draws)
    files = write_page(found, runs[0] / "attack" if out is None else out)
    if as_json:
        say_json({**as_object(found), "files": [str(path) for path in files]})
        return
    table = text_table(found)
    if len(runs) == 1:  # its name in every row would only take room
        table = table.without("run")
    numbers = len(table.columns) - table.words
    show(plain_table(table.title, table.header, table.texts(), numbers=numbers))
    for note in notes(found):
        show(Text(note))
        say()
    for path in files:
        say(f"written   {path}")
