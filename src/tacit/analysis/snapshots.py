"""Warm and generated rows at some rounds of a finished run, which is trained again for them.

A run keeps the model of its selected round alone; its seed gives the other rounds back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.analysis.finished import FinishedRun
from tacit.core.method import Method
from tacit.core.types import ITEMS
from tacit.errors import TacitError
from tacit.experiment.amounts import seconds_text
from tacit.experiment.federated_course import FederatedCourse
from tacit.experiment.watch import Silent, Watcher

MOST = 6  # snapshots, and so panels of a figure
LONG_SECONDS = 60.0  # who waits longer is told before


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The table that a round left, and the rows that its generator makes for cold items."""

    round_number: int
    warm_WD: np.ndarray
    cold_CD: np.ndarray


@dataclass(frozen=True, eq=False)
class Replay:
    """Snapshots in the order of rounds, and the codes of the items that their rows are of."""

    warm_W: np.ndarray
    cold_C: np.ndarray
    snapshots: tuple[Snapshot, ...]


def snapshot_rounds(selected: int, most: int = MOST) -> list[int]:
    """The first round, the selected one, and evenly some between them.

    >>> snapshot_rounds(3), snapshot_rounds(100)
    ([1, 2, 3], [1, 21, 41, 60, 80, 100])
    """
    return np.linspace(1, selected, min(most, selected)).round().astype(int).tolist()


def expected_seconds(run: FinishedRun) -> float:
    """How long the run itself took to come to its selected round."""
    result = run.result
    return float(result["seconds"]) * result["selected_round"] / result["rounds_run"]


def replay(
    run: FinishedRun,
    *,
    threads: int = 1,
    watch: Watcher | None = None,
    warn: Callable[[str], None] | None = None,
) -> Replay:
    """Train a run again up to its selected round, in memory; `warn` hears if that takes long."""
    method, wanted = run.experiment.method, snapshot_rounds(run.result["selected_round"])
    if not isinstance(method, Method) or method.cold is None:
        raise TacitError(
            f"{run.name} makes no rows for new items; give a run with a generator, for example "
            "--with mdifffr."
        )
    train, test = run.prepared.split.train, run.prepared.split.test
    if train.warm_W is None:
        raise TacitError(
            f"{run.name} was trained on all items, so none of them is cold; give a run under "
            "--split cold."
        )
    course = FederatedCourse(run.experiment, train, threads)
    assert course.cold is not None
    cold_C = course.cold.cold_C if test.among_C is None else test.among_C
    seconds = expected_seconds(run)
    if warn is not None and seconds > LONG_SECONDS:
        warn(
            f"{run.name} is trained again up to round {wanted[-1]}: about {seconds_text(seconds)}, "
            "as the run itself took."
        )
    watch = watch or Silent()
    watch.begin(run.experiment, run.prepared, course.describe(), wanted[-1])
    found = []
    try:
        for number in range(1, wanted[-1] + 1):
            course.advance()
            watch.round({"round": number, "loss": course.loss}, None)
            if number in wanted:
                # copied, for the next round writes into the same table
                warm_WD = course.state.shared[ITEMS].cpu().numpy().copy()
                cold_CD = course.cold.rows(course.state, cold_C).cpu().numpy()
                found.append(Snapshot(number, warm_WD, cold_CD))
    finally:
        watch.end()
    return Replay(train.warm_W, cold_C, tuple(found))
