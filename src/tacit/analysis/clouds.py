"""Warm rows against generated ones over rounds: do new items come to lie where old ones do?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.analysis.clouds_figure import clouds_figure
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun
from tacit.analysis.projection import Plane
from tacit.analysis.snapshots import Replay, replay
from tacit.core.types import ITEMS
from tacit.errors import TacitError
from tacit.experiment.amounts import whole_text
from tacit.experiment.checkpoint import load_model
from tacit.experiment.watch import Watcher

SAME = 1e-3  # of the warm spread: rows of a repeated training that differ by less are the same


@dataclass(frozen=True)
class Distance:
    """How two clouds lie to each other, in all dimensions of their rows.

    >>> warm_WD, cold_CD = np.array([[-2.0, 0.0], [2.0, 0.0]]), np.array([[0.0, 2.0], [0.0, 4.0]])
    >>> found = Distance.of(warm_WD, cold_CD)
    >>> found.between_means, found.apart, found.spread_ratio
    (3.0, 1.5, 0.5)
    """

    warm_spread: float  # root mean square distance of rows to their mean row
    cold_spread: float
    between_means: float

    @classmethod
    def of(cls, warm_WD: np.ndarray, cold_CD: np.ndarray) -> Distance:
        warm, cold = (np.asarray(rows, dtype=np.float64) for rows in (warm_WD, cold_CD))
        between = float(np.linalg.norm(cold.mean(axis=0) - warm.mean(axis=0)))
        return cls(_spread(warm), _spread(cold), between)

    @property
    def apart(self) -> float | None:
        """The distance of the mean rows, in warm spreads; None where all warm rows are one."""
        return self.between_means / self.warm_spread if self.warm_spread else None

    @property
    def spread_ratio(self) -> float | None:
        """Cold spread over warm spread; None where all warm rows are one."""
        return self.cold_spread / self.warm_spread if self.warm_spread else None


def clouds(
    runs: Sequence[FinishedRun],
    *,
    threads: int = 1,
    watch: Watcher | None = None,
    warn: Callable[[str], None] | None = None,
) -> Finding:
    """The warm table and the generated rows of the cold test items at up to six rounds, all in the
    plane that fits both at the selected round, and the distance of the two clouds in numbers.

    >>> clouds([])
    Traceback (most recent call last):
    tacit.errors.TacitError: clouds trains one run again, not 0; give one.
    """
    if len(runs) != 1:
        raise TacitError(f"clouds trains one run again, not {len(runs)}; give one.")
    (run,) = runs
    found = replay(run, threads=threads, watch=watch, warn=warn)
    last = found.snapshots[-1]
    both = np.concatenate([last.warm_WD, last.cold_CD])
    plane = Plane.of(both)
    places = [(plane.place(one.warm_WD), plane.place(one.cold_CD)) for one in found.snapshots]
    rounds = [one.round_number for one in found.snapshots]
    distances = [Distance.of(one.warm_WD, one.cold_CD) for one in found.snapshots]
    counts = f"{len(found.warm_W):,} warm and {len(found.cold_C):,} cold items"
    title = f"{counts} of {run.name}, {run.place}"
    columns = (
        Column("round", whole_text),
        *(Column(one) for one in ("apart", "spread ratio", "between means")),
        *(Column(one) for one in ("warm spread", "cold spread")),
    )
    rows = [
        (at, one.apart, one.spread_ratio, one.between_means, one.warm_spread, one.cold_spread)
        for at, one in zip(rounds, distances, strict=True)
    ]
    said = [
        "apart: the distance of the mean rows in warm spreads; a spread is the root mean square "
        "distance of rows to their mean. A spread ratio near 0 says that all new items get nearly "
        "the same row.",
    ]
    return Finding(
        "clouds",
        (Table("clouds", title, columns, tuple(rows)),),
        clouds_figure(
            [f"round {at}" + (" (selected)" if at == rounds[-1] else "") for at in rounds],
            places,
            [(one.apart, one.spread_ratio) for one in distances],
            title,
            _share(plane.place(both), both),
        ),
        (*said, *_differs(run, last.warm_WD, distances[-1])),
        unprinted=(_points(run, found, places, title),),
    )


def _spread(row_ID: np.ndarray) -> float:
    return float(np.sqrt(((row_ID - row_ID.mean(axis=0)) ** 2).sum(axis=1).mean()))


def _share(place_I2: np.ndarray, row_ID: np.ndarray) -> float | None:
    """How much of the rows' variance a plane shows; None where they have none."""
    whole = _spread(np.asarray(row_ID, dtype=np.float64))
    return (_spread(place_I2) / whole) ** 2 if whole else None


def _differs(run: FinishedRun, warm_WD: np.ndarray, distance: Distance) -> list[str]:
    """A sentence where the repeated training did not come to the model that the run kept."""
    if not run.folder.model_dir.exists():
        return []
    kept = load_model(run.folder)
    most = float(np.abs(kept.shared[ITEMS].cpu().numpy() - warm_WD).max())
    if most <= SAME * distance.warm_spread:
        return []
    return [
        f"Trained again, {run.name} came to another table than the one it kept (largest difference "
        f"{most:.2g}): it was trained by another version, or on another machine."
    ]


def _points(
    run: FinishedRun, found: Replay, places: Sequence[tuple[np.ndarray, np.ndarray]], title: str
) -> Table:
    items = run.prepared.dataset.interactions.items
    codes = (("warm", found.warm_W), ("cold", found.cold_C))
    rows = [
        (snapshot.round_number, items[int(code)], kind, float(x), float(y))
        for snapshot, both in zip(found.snapshots, places, strict=True)
        for (kind, code_I), place_I2 in zip(codes, both, strict=True)
        for code, (x, y) in zip(code_I, place_I2, strict=True)
    ]
    columns = (
        Column("round", whole_text),
        *(Column(one, word) for one in ("item", "kind")),
        *(Column(one) for one in ("x", "y")),
    )
    return Table("clouds-points", title, columns, tuple(rows))
