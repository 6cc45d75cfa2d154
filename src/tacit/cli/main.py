"""The `tacit` command: wiring, and mistakes said in one line."""

from __future__ import annotations

import copy
import gc
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tacit.cli import attack, audit, data, deploy, node, privacy
from tacit.cli.add_items import add_items
from tacit.cli.analyse import analyse
from tacit.cli.compare import compare
from tacit.cli.demo import demo
from tacit.cli.doctor import doctor
from tacit.cli.encode import encode
from tacit.cli.evaluate import evaluate
from tacit.cli.leaderboard import leaderboard
from tacit.cli.listing import list_names
from tacit.cli.output import one_sentence
from tacit.cli.recommend import recommend
from tacit.cli.sweep import sweep
from tacit.cli.train import train
from tacit.errors import TacitError, flags
from tacit.files import remedy_of, said

# Idle OpenMP threads would spin, and cost a second CPU while one works. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

STOPPED_BY_KEYBOARD = 130  # what typer makes of Ctrl-C
HELP = {"help_option_names": ["-h", "--help"]}
COMPLETION = "_TACIT_COMPLETE"  # what a shell sets when it asks for completions
# What typer raises for a wrong option: click's exception in older versions, its own in newer ones.
UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]

# Torch has no MemoryError: its allocators say it in words, on the host and on a device.
_NO_MEMORY = re.compile(r"can't allocate memory|not enough memory|out of memory", re.IGNORECASE)

app = typer.Typer(name="tacit", pretty_exceptions_enable=False, context_settings=HELP)
app.command("demo")(demo)
app.command("train")(train)
app.command("evaluate")(evaluate)
app.command("recommend")(recommend)
app.command("add-items")(add_items)
app.command("compare")(compare)
app.add_typer(audit.app, name="audit")
app.add_typer(attack.app, name="attack")
app.add_typer(privacy.app, name="privacy")
app.add_typer(node.app, name="node")
app.add_typer(deploy.app, name="deploy")
app.command("sweep")(sweep)
app.command("leaderboard")(leaderboard)
app.command("analyse")(analyse)
app.add_typer(data.app, name="data")
app.command("encode")(encode)
app.command("list")(list_names)
app.command("doctor")(doctor)


@app.callback(invoke_without_command=True)
def tacit(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Federated recommendation: private histories, honest numbers, fast engines."""
    if version:
        from importlib.metadata import version as version_of

        typer.echo(version_of("tacit"))
        raise typer.Exit


def named_alone(commands: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """The one command that the first argument names, or all of them. A short command is over before
    all others are made.

    >>> [len(named_alone(app, [word]).registered_commands) > 1 for word in ("train", "--help")]
    [False, True]
    """
    name, alone = arguments[0] if arguments else "", copy.copy(commands)
    alone.registered_commands = [one for one in commands.registered_commands if one.name == name]
    alone.registered_groups = [one for one in commands.registered_groups if one.name == name]
    return alone if alone.registered_commands or alone.registered_groups else commands


def main(arguments: Sequence[str], commands: typer.Typer | None = None) -> int:
    """Run one command; the exit code is 0, or 2 after a mistake, which stderr names in one line.

    `commands` are others than those of `tacit`, which then take their own arguments alone.
    """
    given = list(arguments)
    command = typer.main.get_command(commands or named_alone(app, given))
    if not given and commands is None and COMPLETION not in os.environ:
        given = ["--help"]
    try:
        with flags():  # messages name flags, as they are written here
            code = command.main(args=given, prog_name=command.name, standalone_mode=False)
    except TacitError as error:
        return _mistake(str(error))
    except UsageMistake as error:
        return _mistake(error.format_message())  # type: ignore[attr-defined]
    except OSError as error:
        place = f" at {error.filename!r}" if error.filename else ""
        remedy = remedy_of(error, "check that path, and the disk it is on")
        return _mistake(f"The system refused{place} ({said(error)}); {remedy}.")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        return _mistake(
            "There is too little memory for this command; use smaller data, a smaller model or "
            "batch, or a machine with more memory: what was written before still stands."
        )
    except KeyboardInterrupt:
        code = STOPPED_BY_KEYBOARD
    if code == STOPPED_BY_KEYBOARD:
        return _mistake("Stopped by the keyboard.")
    return code if isinstance(code, int) else 0


def _mistake(sentence: str) -> int:
    typer.echo("tacit: " + one_sentence(sentence), err=True)
    return 2


def run() -> None:
    """The console script."""
    # Imports and kernels make hundreds of thousands of objects that stay. Looking through them for
    # garbage, again and again and once more at the end, would take a sixth of a short command.
    gc.set_threshold(500_000, 20, 100)
    code = main(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
