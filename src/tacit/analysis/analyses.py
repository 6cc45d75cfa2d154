"""All analyses by name, and the one function that runs any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.analysis.clouds import clouds
from tacit.analysis.cost import cost
from tacit.analysis.curves import curves
from tacit.analysis.embeddings import embeddings
from tacit.analysis.finding import Finding
from tacit.analysis.finished import finished_runs
from tacit.analysis.gap import gap
from tacit.analysis.gates import gates
from tacit.analysis.groups import groups
from tacit.analysis.inference import inference
from tacit.analysis.modalities import modalities
from tacit.analysis.router import router
from tacit.engines.device import one_torch_thread
from tacit.errors import TacitError, nearest
from tacit.experiment.callbacks import Callbacks
from tacit.experiment.data_record import OLD


@dataclass(frozen=True)
class Analysis:
    """A function from finished runs to a finding, with the options that it takes.

    >>> ANALYSES["groups"].options
    ('n',)
    """

    find: Callable[..., Finding]
    summary: str
    options: tuple[str, ...] = ()
    trains: bool = False  # a run again; takes threads, callbacks, and who hears of long work


# To add one, write its file and name it here.
ANALYSES: dict[str, Analysis] = {
    "embeddings": Analysis(
        embeddings, "item vectors of one user in 2-D, and their AUC", ("user", "projection")
    ),
    "inference": Analysis(inference, "own, global and another user's item table"),
    "curves": Analysis(curves, "validation and training loss by round", ("metric", "ranking")),
    "groups": Analysis(groups, "followers, distinct, cold and warm users", ("n",)),
    "gates": Analysis(gates, "FedRKG's gates by groups of users"),
    "router": Analysis(router, "weights of views and inputs in a content fusion", ("n",)),
    "modalities": Analysis(
        modalities, "items of one user by each input, and mixed", ("user", "projection")
    ),
    "gap": Analysis(gap, "all inputs of items in one plane, and the gap between them", ("user",)),
    "clouds": Analysis(clouds, "warm rows against generated ones over rounds", trains=True),
    "cost": Analysis(cost, "numbers trained and held, bytes held and sent"),
}


@one_torch_thread()
def analyse(
    name: str,
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    names: Sequence[str] | None = None,
    threads: int = 1,
    callbacks: Callbacks = (),
    warn: Callable[[str], None] | None = None,
    **options: Any,
) -> tuple[Finding, list[Path]]:
    """Run one analysis on finished runs; the finding, and the files that were written.

    Without `out` they go to the folder `analysis` of the first run. `names` are what runs are
    called in tables and pictures, in place of what they run. `threads`, `callbacks` and
    `warn` are for an analysis that trains a run again.

    >>> analyse("group", ["runs/one"])
    Traceback (most recent call last):
    tacit.errors.TacitError: Unknown analysis 'group'; did you mean 'groups'? Known: clouds, cost, \
curves, embeddings, gap, gates, groups, inference, modalities, router.
    """
    if name not in ANALYSES:
        raise TacitError(f"Unknown analysis {name!r}; {nearest(name, ANALYSES)}")
    known = ANALYSES[name].options
    for option in options:
        if option not in known:
            takes = f"takes {' and '.join(f'--{one}' for one in known)}" if known else "takes none"
            raise TacitError(f"--{option} is not for {name}, which {takes}; leave it out.")
    if not folders:
        raise TacitError(f"{name} needs at least one finished run; give its folder.")
    if ANALYSES[name].trains:
        options |= {"threads": threads, "callbacks": callbacks, "warn": warn}
    runs = finished_runs(folders, names)
    finding = ANALYSES[name].find(runs, **options)
    if any(run.folder.is_old for run in runs):
        finding = replace(finding, sentences=(*finding.sentences, OLD))
    return finding, finding.write(Path(folders[0]) / "analysis" if out is None else Path(out))
