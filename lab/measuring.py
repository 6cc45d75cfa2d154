"""What commands that measure share: memory, processes of their own, lines that are said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from tacit.cli.output import say, say_json
from tacit.files import write_text

Report = Callable[[str], None]
ROOT = Path(__file__).parents[1]  # from where processes of their own import `lab`


class Memory(NamedTuple):
    """Of a process, in bytes: the most that it ever had, pages of files included, and what is its
    own now, without files."""

    peak: int
    own: int


def memory_of_this_process() -> Memory:
    """As Linux tells it.

    >>> memory_of_this_process().peak > 10**6
    True
    """
    status = Path("/proc/self/status").read_text()
    found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Memory(*(int(found[name].split()[0]) * 1024 for name in ("VmHWM", "RssAnon")))


def in_own_process(code: str, *, seconds: int | None = None) -> Any:
    """What a program prints as JSON in its last line. Peaks of memory are a process's, so what is
    measured of them has one of its own.

    >>> in_own_process("print(1 + 1)")
    2
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=seconds,
        cwd=ROOT,
    )
    return json.loads(done.stdout.splitlines()[-1])


class Told:
    """Lines of a command: said as they come, on stderr where stdout is for JSON, and kept."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if self.as_json:
            typer.echo(line, err=True)
        else:
            say(line)

    def write(self, out: Path | None, name: str, results: dict[str, Any]) -> None:
        """The lines and the numbers as files, where a folder is given; JSON where it is asked."""
        if out is not None:
            write_text(out / f"{name}.txt", "\n".join(self.lines) + "\n")
            write_text(out / f"{name}.json", json.dumps(results, indent=1))
        if self.as_json:
            say_json(results)
