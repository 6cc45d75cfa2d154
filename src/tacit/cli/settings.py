"""Flags that several commands share, and the experiment and folder they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import typer

from tacit.errors import TacitError
from tacit.memory import cores as cores

if TYPE_CHECKING:
    from tacit.experiment.spec import Experiment


# How a command uses the machine.


def ready_to_compute() -> None:
    """What every command does before it trains or scores: one thread for torch (`engines/device.py`
    says why), and a word on stderr should kernels have to be compiled first."""
    import torch

    from tacit.cli.progress import tell_of_compiling

    torch.set_num_threads(1)
    tell_of_compiling()


# The flags that several commands share, spelled once.

DataOption = Annotated[
    str | None,
    typer.Option(
        help="A named source, a file or a folder; see `tacit data list`. Default: planted."
    ),
]
ProtocolOption = Annotated[
    str | None,
    typer.Option(
        help="clean (default), a paper's protocol, or paper: as the method's paper was made."
    ),
]
Preset = Annotated[
    str | None, typer.Option(help="Which hyper-parameters: paper (default) or another in the list.")
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="How parts are made: time, random, row, item_appearance, global_time, "
        "global_time_all, ratio, labels, released, cold or cold_together; with fields of it, as in "
        "global_time:test_share=0.2. Default: the protocol's own (time for most; labels where a "
        "file has them and no times)."
    ),
]
ColumnsOption = Annotated[
    str | None, typer.Option(help="Names of columns, as in user=client,item=song,time=played_at.")
]
MinUserOption = Annotated[
    int | None, typer.Option(help="Keep users with at least so many rows.", metavar="N")
]
MinRatingOption = Annotated[
    float | None, typer.Option(help="Keep rows with a rating of at least so much.", metavar="X")
]
Core = Annotated[
    int | None,
    typer.Option(help="Keep users and items with at least K rows each (a K-core).", metavar="K"),
]
DuplicatesOption = Annotated[
    str | None, typer.Option(help="Repeated (user, item) pairs: earliest (default) or keep.")
]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds; default as in the paper.")]
Seed = Annotated[int | None, typer.Option(help="Everything random follows from it. Default: 0.")]
ShareOption = Annotated[
    float | None, typer.Option(help="Share of users invited each round. Default: 1.")
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", help="A plug-in, NAME or NAME:key=value,..; may be repeated."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting, part.field=value; may be repeated."),
]
EngineOption = Annotated[
    str | None, typer.Option(help="auto (default), loop, cohort or fused: same numbers.")
]
Threads = Annotated[
    int | None, typer.Option(help="Threads of the fused engine. Default: all cores.", min=1)
]
PrivateOnDisk = Annotated[
    bool,
    typer.Option(
        "--private-on-disk",
        help="Keep the rows that clients tune in files of the run folder: same numbers.",
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu (default) or cuda.")]
Checkpoint = Annotated[
    float | None,
    typer.Option(help="Seconds between checkpoints. Default: 15.", min=0.0, metavar="SECONDS"),
]


def _extend(spellings: list[str] | None) -> list[str] | None:
    from tacit.names import extend

    for spelling in spellings or ():
        extend(spelling)
    return spellings


# Imported while the command line is read, so that a command finds the names and need do nothing.
Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=_extend,
        help="A module of your own, by name or as a .py file, whose methods, plug-ins, parts and "
        "datasets are then known; may be repeated.",
    ),
]
Out = Annotated[Path | None, typer.Option(help="The folder to write to.")]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")
]


@dataclass(frozen=True)
class ExperimentFlags:
    """What `train`, `compare`, `sweep` and `audit` say of an experiment, a field for each flag."""

    data: DataOption = None
    protocol: ProtocolOption = None
    preset: Preset = None
    split: SplitOption = None
    columns: ColumnsOption = None
    min_user: MinUserOption = None
    min_rating: MinRatingOption = None
    core: Core = None
    duplicates: DuplicatesOption = None
    rounds: Rounds = None
    participation: ShareOption = None
    plugins: With = None
    sets: Set = None
    engine: EngineOption = None
    device: Device = None

    def given(self, **more: object) -> dict[str, Any]:
        """The flags that were given, as arguments of `resolve`; `more` are flags of one command.

        >>> ExperimentFlags(rounds=3, plugins=[], columns="user=client").given(seed=None)
        {'columns': {'user': 'client'}, 'rounds': 3}
        """
        flags = {field.name: getattr(self, field.name) for field in fields(self)} | more
        flags["columns"] = columns_of(self.columns)
        return given(**flags)


Command = TypeVar("Command", bound=Callable[..., None])


def with_flags(command: Command) -> Command:
    """A command as typer reads it: a parameter that is a dataclass of flags is one option for each
    of its fields.

    >>> @with_flags
    ... def tell(name: str, flags: ExperimentFlags) -> None:
    ...     print(name, flags.given())
    >>> list(inspect.signature(tell).parameters)[:3]
    ['name', 'data', 'protocol']
    >>> tell("ann", rounds=3)
    ann {'rounds': 3}
    """
    groups: dict[str, Any] = {}
    spread: dict[str, tuple[Any, Any]] = {}  # annotation and default, by name
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if not is_dataclass(kind):
            spread[parameter.name] = (kind, parameter.default)
            continue
        groups[parameter.name] = kind
        hints = get_type_hints(kind, include_extras=True)
        spread |= {field.name: (hints[field.name], field.default) for field in fields(kind)}

    @functools.wraps(command)
    def run(*first: Any, **options: Any) -> None:
        for name, kind in groups.items():
            own = {field.name for field in fields(kind)} & options.keys()
            options[name] = kind(**{key: options.pop(key) for key in own})
        command(*first, **options)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
            )
            for name, (annotation, default) in spread.items()
        ]
    )
    run.__annotations__ = {name: annotation for name, (annotation, _) in spread.items()}
    return cast(Command, run)


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


# From flags and a configuration file to one experiment, and to the folder of its run.


def experiment_of(config: Path | None, flags: dict[str, Any]) -> Experiment:
    """The experiment that a file and flags mean together; a flag wins, plug-ins and sets add up."""
    from tacit.experiment.resolve import override, resolve
    from tacit.experiment.toml import read_config
    from tacit.methods import METHODS

    saved = {} if config is None else read_config(config)
    if not isinstance(saved, dict):
        return override(saved, **flags)
    arguments = {**saved, **flags}
    for several in ("plugins", "sets"):
        if several in saved and several in flags:
            arguments[several] = [*saved[several], *flags[several]]
    if "method" not in arguments:
        raise TacitError(
            f"Which method? Write `tacit train METHOD`, with one of: {', '.join(METHODS)}."
        )
    return resolve(**arguments)


def new_folder(experiment: Experiment, root: Path = Path("runs")) -> Path:
    """The first folder for this run that is not there yet: its name, then -2, -3, …

    Data that is called like that of another run below `root` gets a longer name.
    """
    from tacit.experiment.names import data_below, run_name

    return free_folder(run_name(experiment, data_below(root)), root)


def free_folder(name: str, root: Path = Path("runs")) -> Path:
    """The first of name, name-2, name-3, … that is not there yet."""
    folder, number = root / name, 1
    while folder.exists():
        number += 1
        folder = root / f"{name}-{number}"
    return folder


def folder_to_resume(experiment: Experiment, root: Path = Path("runs")) -> Path:
    """The newest folder that holds this experiment unfinished, else the newest finished one, else
    one in which a kill came before anything stood."""
    from tacit.experiment.folder import RunFolder
    from tacit.experiment.names import run_names

    names = run_names(experiment)
    found: list[tuple[bool, float, Path]] = []
    blank: list[Path] = []
    for folder in (p for name in names for p in (root / name, *sorted(root.glob(f"{name}-*")))):
        files = RunFolder(folder)
        if folder.is_dir() and files.is_blank(experiment):
            blank.append(folder)
        elif files.experiment_file.is_file() and _holds(files, experiment):
            written = files.experiment_file.stat().st_mtime
            found.append((not files.finished, written, folder))
    if not found and blank:
        return blank[0]
    if not found:
        raise TacitError(
            f"No run of this experiment at {str(root / names[0])!r}; leave out --resume to begin "
            "one, or say where it is with --out."
        )
    return max(found)[2]


def _holds(files: Any, experiment: Experiment) -> bool:
    try:
        return bool(files.experiment() == experiment)
    except TacitError:  # damaged: not the one we look for
        return False
