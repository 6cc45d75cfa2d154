"""`tacit doctor`: is everything here that a run needs?"""

from __future__ import annotations

import os
import platform
import sys

import typer

from tacit.cli.output import say
from tacit.cli.settings import cores

TOLERANCE = 1e-10  # of the largest change of a table, in float64


def doctor() -> None:
    """Versions, cores, memory, devices, data, and whether the engines agree on a tiny round."""
    from importlib.metadata import version

    import torch

    from tacit.compiled import cache_folder
    from tacit.experiment.amounts import bytes_text
    from tacit.memory import available_bytes

    packages = ("torch", "numpy", "numba", "scipy", "polars", "pydantic", "typer", "rich")
    _line("tacit", f"{version('tacit')} on Python {platform.python_version()}, {sys.platform}")
    _line("packages", ", ".join(f"{name} {version(name)}" for name in packages))
    _line("cores", f"{cores()}; `tacit train` uses all of them unless --threads says otherwise")
    _line("memory", f"{bytes_text(available_bytes())} free")
    cuda = torch.cuda.is_available()
    _line("CUDA", torch.cuda.get_device_name(0) if cuda else "not here; runs use the CPU")
    _data()
    difference = engines_disagree_by()
    agree = difference <= TOLERANCE
    folder = cache_folder()
    kept = f"is kept in {folder}" if folder else "is kept nowhere: no folder for it can be written"
    _line("kernels", f"compiled code {kept}")
    _line("threads", f"numba threading layer {_threading_layer()}")
    verdict = "OK" if agree else "THEY DISAGREE"
    _line("engines", f"loop, cohort and fused differ by {difference:.0e} of a change: {verdict}")
    say("OK" if agree else "Not usable: the engines must agree; please report this machine.")
    if not agree:
        raise typer.Exit(1)


def _threading_layer() -> str:
    import numba

    try:
        return str(numba.threading_layer())
    except ValueError:  # it is chosen when a kernel first runs on several threads
        return "not chosen yet"


def _line(name: str, text: str) -> None:
    say(f"{name:11} {text}")


def _data() -> None:
    from tacit.cli.data import found
    from tacit.data.sources import SOURCES

    here = [name for name in SOURCES if SOURCES[name].load is not None or found(name)]
    absent = [name for name in SOURCES if name not in here]
    _line("TACIT_DATA", os.environ.get("TACIT_DATA") or "not set")
    _line("found", ", ".join(["planted", *here]))
    if absent:
        _line("not found", ", ".join(absent) + " (`tacit data get NAME` says how to get one)")


def engines_disagree_by() -> float:
    """The largest difference between engines after two rounds, over the largest change.

    >>> engines_disagree_by() < TOLERANCE
    True
    """
    import torch

    from tacit.core.compose import compose
    from tacit.core.types import ITEMS, Task
    from tacit.data.planted import planted_dataset
    from tacit.data.protocol import CLEAN
    from tacit.data.split import split_dataset
    from tacit.engines.cohort import CohortEngine
    from tacit.engines.loop import LoopEngine
    from tacit.engines.participation import Participation
    from tacit.methods import fedmf

    train = split_dataset(planted_dataset(n_users=12, n_items=30, mean_history=10.0), CLEAN).train
    algorithm = compose(fedmf(dim=4, per_item=1.0), Task(train.n_users, train.n_items))
    tables = []
    for engine in (
        LoopEngine(torch.float64),
        CohortEngine(torch.float64, fused="never"),
        CohortEngine(torch.float64, threads=cores(), fused="always"),
    ):
        state = engine.start(algorithm, train, 0)
        first = state.shared[ITEMS].clone()
        for round_number in (1, 2):
            everybody = Participation().draw(train, 0, round_number)
            engine.round(algorithm, train, state, everybody, 0)
        tables.append(state.shared[ITEMS])
    change = (tables[0] - first).abs().max()
    return max(float((table - tables[0]).abs().max() / change) for table in tables[1:])
