"""`tacit add-items`: rows for items that did not exist when a run was trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json
from tacit.cli.settings import ready_to_compute
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.experiment.add_items import Added

NAMED = 10  # items that are named on the terminal; --json names all of them


def add_items(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run with a generator.")],
    items: Annotated[Path, typer.Option(help="A CSV or Parquet file with a row per new item.")],
    text: Annotated[
        str | None,
        typer.Option(help="Columns to read as text. Default: those of the training data."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="A folder of pictures named by item id: 17.jpg, x.png.")
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="Default: the encoders that made the training data; needed to say where a model "
            "is, as in clip:FOLDER. May be repeated."
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Ready-made features, NAME=FILE.npy, with one row per item in the order of the "
            "file; may be repeated."
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column with the ids. Default: item_id.")
    ] = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Let a finished run recommend items that did not exist when it was trained."""
    from tacit.content.recipes import Given
    from tacit.experiment.add_items import add_items as add

    ready_to_compute()
    columns = tuple(column.strip() for column in (text or "").split(",") if column.strip())
    given = Given(columns, images, tuple(encoder or ()), _features(features or ()))
    added = add(run, items, given, id_column)
    if as_json:
        say_json(
            {
                "run": str(run),
                "version": added.version,
                "file": str(added.file),
                "ids": list(added.ids),
                "tables": added.tables,
                "without_content": list(added.without),
                "unused": list(added.unused),
            }
        )
        return
    _say(added, run)


def _features(spellings: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for spelling in spellings:
        name, equals, path = spelling.partition("=")
        if not (name and equals and path) or name in found:
            raise TacitError(
                f"Cannot read --features {spelling!r}; write NAME=FILE.npy, each name once."
            )
        found[name] = Path(path)
    return found


def _say(added: Added, run: Path) -> None:
    total = len(added.ids)
    say(f"version   {added.version}, {total} new items: {added.file}")
    for name, table in added.tables.items():
        of = f" of {', '.join(table['columns'])}" if table["columns"] else ""
        has = total - len(table["without"])
        say(f"{name:9} {table['encoder']}{of}: {has} of {total} items")
    if added.without:
        some = ", ".join(added.without[:NAMED])
        more = f" and {len(added.without) - NAMED} more" if len(added.without) > NAMED else ""
        say(f"mean      {len(added.without)} without content stand for the mean item: {some}{more}")
    for option in added.unused:
        reads = ", ".join(added.tables) or "no content"
        say(f"unused    {option}: the run reads {reads}")
    say(f"next      tacit recommend {run} --user ID")
