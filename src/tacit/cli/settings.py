"""From flags and a configuration file to one experiment, and to the folder of its run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.experiment.spec import Experiment


def experiment_of(config: Path | None, flags: dict[str, Any]) -> Experiment:
    """The experiment that a file and flags mean together; a flag wins, plug-ins and sets add up."""
    from tacit.experiment.override import override
    from tacit.experiment.resolve import resolve
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
