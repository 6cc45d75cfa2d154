"""Folder names that say what lies in them."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

from tacit.data.load import IN_MEMORY, PLANTED
from tacit.data.sources import SOURCES
from tacit.experiment.spec import Experiment
from tacit.plugins.entry import parse


def is_named(data: str) -> bool:
    """Whether data is called by a name of its own, not by a path: a source, or data in memory.

    >>> is_named("planted"), is_named("ml-100k"), is_named("plays.csv")
    (True, True, False)
    """
    return data == PLANTED or data in SOURCES or data.startswith(IN_MEMORY)


def slug(text: str) -> str:
    """A text as a folder name: letters, digits and a few signs.

    >>> slug("fedmf + clip:bound=1")
    'fedmf+clip_bound=1'
    """
    kept = re.sub(r"[^A-Za-z0-9._+=-]+", "_", text.replace(" + ", "+"))
    return kept.strip("._") or "run"


def dataset_names(name: str) -> list[str]:
    """All that data may be called, shortest first: a source has one name; a file is called by its
    last part without and with endings, then with the folders above it, one more each time, and at
    last with a digest of them: signs that no folder name has may be all that tells files apart.

    >>> dataset_names("ml-100k"), dataset_names("/data/plays.csv.gz")[:3]
    (['ml-100k'], ['plays', 'plays.csv.gz', 'data_plays.csv.gz'])
    """
    if is_named(name):
        return [slug(name)]
    path = _path(name)
    stem = slug(path.name.split(".")[0] or path.name)
    folders = path.parts[1:]
    longer = ["_".join(folders[-count:]) for count in range(1, len(folders) + 1)]
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return list(dict.fromkeys([stem, *map(slug, longer), f"{stem}-{digest}"]))


def dataset_name(name: str, others: Iterable[str] = ()) -> str:
    """The shortest name of some data that neither a source nor one of `others` has.

    >>> dataset_name("ml-100k"), dataset_name("data/plays.csv.gz"), dataset_name("planted.csv")
    ('ml-100k', 'plays', 'planted.csv')
    >>> dataset_name("b/plays.csv", ["a/plays.csv"]), dataset_name("plays.csv", ["plays.tsv"])
    ('b_plays.csv', 'plays.csv')
    """
    own = dataset_names(name)
    if is_named(name):
        return own[0]
    path = _path(name)
    strangers = [one for one in others if is_named(one) or _path(one) != path]
    taken = {called for one in (*strangers, PLANTED, *SOURCES) for called in dataset_names(one)}
    return next(called for called in own if called not in taken)


def data_title(name: str) -> str:
    """What a figure calls its data: a source's name, or a file's with the folder it lies in.

    >>> data_title("ml-100k"), data_title("/home/data/plays.csv")
    ('ml-100k', 'data/plays.csv')
    """
    return name if is_named(name) else "/".join(_path(name).parts[1:][-2:])


def data_below(root: Path) -> set[str]:
    """The data of all runs below a folder, those of comparisons and sweeps included.

    >>> data_below(Path("nowhere"))
    set()
    """
    found: set[str] = set()
    for depth in (1, 2, 3):
        for path in root.glob("*/" * depth + "experiment.toml"):
            try:
                found.add(str(tomllib.loads(path.read_text(encoding="utf-8"))["data"]["name"]))
            except (OSError, ValueError, LookupError, TypeError):
                continue  # damaged: whoever opens it is told
    return found


def shared_folder(root: Path, data: str, called: Callable[[str], str]) -> Path:
    """The folder for many runs of some data: one of its own that is there already, else one that
    no other data has a claim to. `called` makes a folder's name from the data's.

    >>> shared_folder(Path("runs"), "planted", "compare-{}-clean".format)
    PosixPath('runs/compare-planted-clean')
    """
    for name in dataset_names(data):
        if data_below(root / called(name)) == {data}:
            return root / called(name)
    return root / called(dataset_name(data, data_below(root)))


def run_name(experiment: Experiment, others: Iterable[str] = ()) -> str:
    """Method, plug-ins, dataset, protocol and seed, as the default folder of a run is called;
    `others` are data that must not have the same name.

    >>> from tacit.experiment.resolve import resolve
    >>> run_name(resolve("fedmf", plugins=["clip:bound=1"]))
    'fedmf+clip-planted-clean-seed0'
    """
    return _run_name(experiment, dataset_name(experiment.data.name, others))


def run_names(experiment: Experiment) -> list[str]:
    """All names that `run_name` can give, whatever other data there is.

    >>> from tacit.experiment.resolve import resolve
    >>> run_names(resolve("fedmf", data="/data/plays.csv"))[1]
    'fedmf-plays.csv-clean-seed0'
    """
    return [_run_name(experiment, name) for name in dataset_names(experiment.data.name)]


def _run_name(experiment: Experiment, data: str) -> str:
    return f"{_parts(experiment)}-{data}-{slug(experiment.protocol.name)}-seed{experiment.seed}"


def audit_name(experiment: Experiment, *, named: bool, others: Iterable[str] = ()) -> str:
    """The default folder of an audit; its protocol is `named` where only one is audited.

    >>> from tacit.experiment.resolve import resolve
    >>> audit_name(resolve("fedmf"), named=False), audit_name(resolve("fedmf"), named=True)
    ('audit-fedmf-planted-seed0', 'audit-fedmf-planted-clean-seed0')
    """
    data = dataset_name(experiment.data.name, others)
    protocol = f"-{slug(experiment.protocol.name)}" if named else ""
    return f"audit-{_parts(experiment)}-{data}{protocol}-seed{experiment.seed}"


def _parts(experiment: Experiment) -> str:
    """Method and plug-ins, the latter without their arguments."""
    plugins = (parse(spelling)[0] for spelling in experiment.plugins)
    return slug("+".join([experiment.name, *plugins]))


def _path(name: str) -> Path:
    """Where data lies; nothing is looked at, so a name of any kind will do."""
    return Path(os.path.abspath(name))
