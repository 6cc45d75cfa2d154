"""Where commands write: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN_WIDTH = 120  # of tables when stdout is a file or a pipe


def say_json(value: Any) -> None:
    """One JSON object on stdout."""
    typer.echo(json.dumps(value, indent=1))


def say(text: str = "") -> None:
    """One line for people on stdout, as it is: no wrapping, no markup."""
    typer.echo(text)


def show(renderable: RenderableType) -> None:
    """A rich table on stdout."""
    _stdout().print(renderable)


def _stdout() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    return console
