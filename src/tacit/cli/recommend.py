"""`tacit recommend`: lists for one person from a finished run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import options
from tacit.cli.machine import one_torch_thread
from tacit.cli.output import say_json, show


def recommend(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    user: Annotated[str | None, typer.Option(help="A user id of the training data.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="A file with one item id a line: a new person.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    as_json: options.Json = False,
) -> None:
    """The best items for a person who has not had them yet."""
    from tacit.experiment.recommend import recommend as recommend_items

    one_torch_thread()
    best = recommend_items(run, user=user, history=history, k=k)
    if as_json:
        say_json({"run": str(run), "user": user, "items": [asdict(line) for line in best]})
        return
    from tacit.cli.tables import plain_table

    rows = [[str(line.rank), line.item, line.title or "", f"{line.score:.4f}"] for line in best]
    show(plain_table(None, ["rank", "item", "title", "score"], rows, numbers=1))
