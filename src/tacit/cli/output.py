"""Where commands write: results to stdout, everything else to stderr.

Titles, ids and names of columns come out of other people's files. What is in them reaches the
terminal through `printable`, so that none of it can move the cursor, colour the screen or forge a
line.
"""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN_WIDTH = 120  # of tables when stdout is a file or a pipe
LONGEST_SENTENCE = 1500  # characters of one mistake; its beginning and its end are kept
_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # controls, half characters, and ends of lines
_TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # of direction


def printable(text: str) -> str:
    """The text with what a terminal would obey, and not show, written as escapes.

    >>> printable("Alien \\x1b[31m, café")
    'Alien \\\\u001b[31m, café'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in _HIDDEN or c in _TURNS else c for c in text
    )


def one_sentence(text: str) -> str:
    """A mistake as it is printed: one line, of bounded length, with nothing a terminal obeys.

    >>> one_sentence("One\\nline.")
    'One line.'
    """
    line = " ".join(text.splitlines())
    if len(line) > LONGEST_SENTENCE:
        line = f"{line[: LONGEST_SENTENCE * 2 // 3]} … {line[-LONGEST_SENTENCE // 3 :]}"
    return printable(line)


def say_json(value: Any) -> None:
    """One JSON object on stdout."""
    typer.echo(json.dumps(value, indent=1))


def say(text: str = "") -> None:
    """One line for people on stdout, as it is: no wrapping, no markup."""
    typer.echo(printable(text))


def warn(text: str) -> None:
    """One line for people on stderr."""
    typer.echo(printable(text), err=True)


def say_lines(text: str) -> None:
    """Several lines for people on stdout."""
    for line in text.split("\n"):
        say(line)


def show(renderable: RenderableType) -> None:
    """A rich table on stdout."""
    _stdout().print(renderable)


def _stdout() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    return console
