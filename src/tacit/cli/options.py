"""The flags that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str | None,
    typer.Option(
        help="A named source, a file or a folder; see `tacit data list`. Default: planted."
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="clean (default), a paper's protocol, or paper: as the method's paper was made."
    ),
]
Preset = Annotated[
    str | None, typer.Option(help="Which hyper-parameters: paper (default) or another in the list.")
]
Split = Annotated[
    str | None,
    typer.Option(
        help="How parts are made: time, random, row, item_appearance, global_time, ratio, labels, "
        "released, cold or cold_together. Default: the protocol's own (time for most; labels "
        "where a file has them and no times)."
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Names of columns, as in user=client,item=song,time=played_at.")
]
MinUser = Annotated[
    int | None, typer.Option(help="Keep users with at least so many rows.", metavar="N")
]
MinRating = Annotated[
    float | None, typer.Option(help="Keep rows with a rating of at least so much.", metavar="X")
]
Core = Annotated[
    int | None,
    typer.Option(help="Keep users and items with at least K rows each (a K-core).", metavar="K"),
]
Duplicates = Annotated[
    str | None, typer.Option(help="Repeated (user, item) pairs: earliest (default) or keep.")
]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds; default as in the paper.")]
Seed = Annotated[int | None, typer.Option(help="Everything random follows from it. Default: 0.")]
Share = Annotated[float | None, typer.Option(help="Share of users invited each round. Default: 1.")]
With = Annotated[
    list[str] | None,
    typer.Option("--with", help="A plug-in, NAME or NAME:key=value,..; may be repeated."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting, part.field=value; may be repeated."),
]
Engine = Annotated[
    str | None, typer.Option(help="auto (default), loop, cohort or fused: same numbers.")
]
Threads = Annotated[
    int | None, typer.Option(help="Threads of the fused engine. Default: all cores.", min=1)
]
Device = Annotated[str | None, typer.Option(help="cpu (default) or cuda.")]
Checkpoint = Annotated[
    float | None,
    typer.Option(help="Seconds between checkpoints. Default: 15.", min=0.0, metavar="SECONDS"),
]
Out = Annotated[Path | None, typer.Option(help="The folder to write to.")]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")
]


def columns_of(text: str | None) -> dict[str, str] | None:
    """The columns that `--columns` names; None where it was not given.

    >>> columns_of("user=client, item=song")
    {'user': 'client', 'item': 'song'}
    """
    from tacit.data.readers import parse_columns

    return None if text is None else parse_columns(text)


def given(**flags: object) -> dict[str, object]:
    """Only what was given: flags that are neither absent nor empty lists.

    >>> given(rounds=3, seed=None, plugins=[])
    {'rounds': 3}
    """
    return {name: value for name, value in flags.items() if value is not None and value != []}
