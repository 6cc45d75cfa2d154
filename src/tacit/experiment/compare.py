"""Several methods under one protocol: run what is missing, then compare user by user."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.evaluation.metrics import metric as metric_of
from tacit.evaluation.ranks import Ranks
from tacit.experiment.comparison import Comparison, Entrant, choose
from tacit.experiment.comparison_text import as_markdown
from tacit.experiment.data_record import DataNow
from tacit.experiment.folder import RunFolder
from tacit.experiment.names import slug
from tacit.experiment.resolve import resolve
from tacit.experiment.run import RunInterruptedError, run
from tacit.experiment.spec import Experiment
from tacit.experiment.tabulate import tabulate
from tacit.experiment.watch import Watcher
from tacit.files import write_text
from tacit.methods import METHODS


def compare(
    contenders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    seeds: int = 3,
    metric: str = "NDCG@10",
    against: str = "first",
    threads: int = 1,
    watch: Watcher | None = None,
    **settings: Any,
) -> Comparison:
    """Compare methods (run with seeds 0, 1, …, each in `out/METHOD/seedK`) and finished runs.

    A method may carry plug-ins, as in "fedmf+clip:bound=1"; `settings` are arguments of `resolve`
    for all methods. Finished runs are reused, so a comparison that was stopped goes on. The table
    is written to `out` as `compare.json` and `compare.md`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = compare(["popularity", "random"], folder, seeds=1)
    >>> table.rows[1].difference.high < 0
    True
    """
    if seeds < 1:
        raise TacitError(f"seeds is {seeds}; run at least 1.")
    zero = np.zeros(1, dtype=np.int64)
    # on one made-up rank: a name that does not exist is refused before hours of training
    metric_of(Ranks(zero, zero, zero, zero, zero + 1, "test", "full"), metric)
    entrants = _entrants(contenders, out, seeds, settings)
    check_alike(entrants)
    choose(against, [entrant.name for entrant in entrants], [0.0] * len(entrants))
    data = DataNow()
    for entrant in entrants:
        for experiment, folder in zip(entrant.experiments, entrant.folders, strict=True):
            finish(experiment, folder, threads, watch, data)
    comparison = tabulate(entrants, metric, against)
    if data.absent:
        comparison = replace(comparison, notes=(*comparison.notes, *data.absent))
    if out is not None:
        write_text(Path(out) / "compare.json", json.dumps(asdict(comparison), indent=1))
        write_text(Path(out) / "compare.md", as_markdown(comparison))
    return comparison


def check_alike(entrants: Sequence[Entrant]) -> None:
    """Refuse to put numbers of different data, splits or protocols into one table.

    >>> one, other = resolve("fedmf"), resolve("fedmf", split="random")
    >>> check_alike([Entrant("a", (one,), ()), Entrant("b", (other,), ())])
    Traceback (most recent call last):
    tacit.errors.TacitError: a and b do not compare: protocol.split.order is 'time' for the one \
and 'random' for the other; run both under the same.
    """
    one = entrants[0]
    for other in entrants[1:]:
        for part in ("data", "protocol"):
            a, b = (getattr(entrant.experiments[0], part) for entrant in (one, other))
            if a != b:
                path, x, y = _first_difference(a, b, part)
                raise TacitError(
                    f"{one.name} and {other.name} do not compare: {path.removesuffix('.name')} is "
                    f"{x!r} for the one and {y!r} for the other; run both under the same."
                )


def _first_difference(a: Any, b: Any, path: str) -> tuple[str, Any, Any]:
    if is_dataclass(a):
        for field in fields(a):
            x, y = getattr(a, field.name), getattr(b, field.name)
            if x != y:
                return _first_difference(x, y, f"{path}.{field.name}")
    return path, a, b


def _entrants(
    contenders: Sequence[str | Path], out: str | Path | None, seeds: int, settings: dict[str, Any]
) -> list[Entrant]:
    entrants: list[Entrant] = []
    runs: dict[Experiment, Entrant] = {}  # by the experiment without its seed
    for contender in contenders:
        name, *plugins = re.split(r"\+(?=[a-z_])", str(contender))  # 1e+5 is a number
        folder = Path(contender)
        if name not in METHODS and (folder.is_dir() or len(folder.parts) > 1):
            experiment = RunFolder(folder).experiment()
            RunFolder(folder).result()
            key = replace(experiment, seed=0)
            known = runs.get(key)
            runs[key] = _with_run(known, experiment, folder, entrants)
            if known is None:
                entrants.append(runs[key])
            else:
                entrants[entrants.index(known)] = runs[key]
        else:
            entrants.append(_to_run(name, plugins, out, seeds, settings))
    names = [entrant.name for entrant in entrants]
    if len(names) < 2:
        raise TacitError("A comparison needs at least two methods; name another one.")
    for name in names:
        if names.count(name) > 1:
            raise TacitError(f"{name} is there twice; name each method once.")
    if settings and len(runs) == len(entrants):
        raise TacitError(
            f"--{min(settings).replace('_', '-')} says how to run methods, but only finished runs "
            "are given; leave it out."
        )
    return entrants


def _with_run(
    known: Entrant | None, experiment: Experiment, folder: Path, entrants: Sequence[Entrant]
) -> Entrant:
    """A finished run as a new entrant, or as one more seed of a known one."""
    if known is None:
        name = experiment.label
        if name in [entrant.name for entrant in entrants]:  # same parts, other settings
            name = f"{name} ({folder.name})"
        return Entrant(name, (experiment,), (folder,))
    if experiment in known.experiments:
        twin = known.folders[known.experiments.index(experiment)]
        raise TacitError(
            f"{str(twin)!r} and {str(folder)!r} hold the same run (seed {experiment.seed}); give "
            "one of them."
        )
    return Entrant(known.name, (*known.experiments, experiment), (*known.folders, folder))


def _to_run(
    name: str,
    plugins: Sequence[str],
    out: str | Path | None,
    seeds: int,
    settings: dict[str, Any],
) -> Entrant:
    every = [*plugins, *settings.get("plugins", ())]
    given = {key: value for key, value in settings.items() if key != "plugins"}
    experiments = tuple(resolve(name, plugins=every, seed=seed, **given) for seed in range(seeds))
    if out is None:
        raise TacitError(f"{name} has to be run; say where its runs go with --out.")
    place = Path(out) / slug(experiments[0].label)
    folders = tuple(place / f"seed{experiment.seed}" for experiment in experiments)
    return Entrant(experiments[0].label, experiments, folders)


def finish(
    experiment: Experiment, folder: Path, threads: int, watch: Watcher | None, data: DataNow
) -> None:
    """Run what is not finished yet, from its checkpoint if there is one; what is finished stands if
    it was made on the data that is here."""
    files = RunFolder(folder)
    if files.finished and files.experiment() == experiment:
        data.require(experiment, files)
        return
    try:
        run(experiment, folder, threads=threads, resume=True, watch=watch)
    except RunInterruptedError as stop:
        raise RunInterruptedError(
            f"Stopped during {experiment.label}, seed {experiment.seed}; give the same command "
            "again to continue."
        ) from stop
