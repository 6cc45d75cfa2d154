"""Warm rows against generated ones over rounds: do new items come to lie where old ones do?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.analysis.embeddings import PROJECTIONS, Plane
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun
from tacit.core.types import ITEMS
from tacit.errors import TacitError
from tacit.experiment.amounts import DASH, seconds_text, whole_text
from tacit.experiment.callbacks import Callbacks, together
from tacit.experiment.charts import GREY, PALETTE, caption, legend_outside, new_figure
from tacit.experiment.checkpoint import load_model
from tacit.experiment.trainer import Trainer

# Warm and generated rows at some rounds of a finished run, which is trained again for them.
#
# A run keeps the model of its selected round alone; its seed gives the other rounds back.

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
    record = run.record
    return record.seconds * record.selected_round / record.rounds_run


def replay(
    run: FinishedRun,
    *,
    threads: int = 1,
    callbacks: Callbacks = (),
    warn: Callable[[str], None] | None = None,
) -> Replay:
    """Train a run again up to its selected round, in memory; `warn` hears if that takes long."""
    method, wanted = run.experiment.method.composed, snapshot_rounds(run.record.selected_round)
    if method is None or method.cold is None:
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
    trainer = Trainer(run.experiment, train, threads)
    assert trainer.cold is not None
    cold_C = trainer.cold.cold_C if test.among_C is None else test.among_C
    seconds = expected_seconds(run)
    if warn is not None and seconds > LONG_SECONDS:
        warn(
            f"{run.name} is trained again up to round {wanted[-1]}: about {seconds_text(seconds)}, "
            "as the run itself took."
        )
    callback = together(callbacks)
    callback.begin(run.experiment, wanted[-1], trainer.describe().text)
    found = []
    try:
        for number in range(1, wanted[-1] + 1):
            trainer.run_round()
            callback.round(number, trainer.loss)
            if number in wanted:
                # copied, for the next round writes into the same table
                warm_WD = trainer.state.shared[ITEMS].cpu().numpy().copy()
                cold_CD = trainer.cold.rows(trainer.state, cold_C).cpu().numpy()
                found.append(Snapshot(number, warm_WD, cold_CD))
    finally:
        callback.end(None)
    return Replay(train.warm_W, cold_C, tuple(found))


# Two clouds of rows, a panel for each snapshot, all on the same axes.

COLUMNS = 3


def clouds_figure(
    names: Sequence[str],
    places: Sequence[tuple[np.ndarray, np.ndarray]],
    distances: Sequence[tuple[float | None, float | None]],
    title: str,
    share: float | None,
) -> Figure:
    """Places of warm and cold rows in each panel, with `(apart, spread ratio)` below it; `share` of
    the variance is what the plane shows.

    >>> place_I2 = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> figure = clouds_figure(["round 1"], [(place_I2, place_I2 + 1)], [(0.5, 1.0)], "Few", 0.9)
    >>> figure.axes[0].get_xlabel().splitlines()[-1]
    'apart 0.50, spread ratio 1.00'
    """
    across, up = PROJECTIONS["pca"].axes
    alone = len(names) == 1
    figure, panels = new_figure(
        len(names), width=6.4 if alone else 4.0, height=4.2, columns=COLUMNS
    )
    low_2, high_2 = _limits([one for both in places for one in both])
    for number, (panel, name, both, distance) in enumerate(
        zip(panels, names, places, distances, strict=True)
    ):
        _draw(panel, *both)
        panel.set_title(name, fontsize=11)
        apart, ratio = (DASH if one is None else f"{one:.2f}" for one in distance)
        panel.set_xlabel(f"{across}\napart {apart}, spread ratio {ratio}")
        panel.set_xlim(low_2[0], high_2[0])
        panel.set_ylim(low_2[1], high_2[1])
        if number % COLUMNS == 0:
            panel.set_ylabel(up)
    legend_outside(figure, panels[0])
    figure.suptitle(title, fontsize=12)
    shown = "" if share is None else f" ({100 * share:.0f} % of the variance)"
    caption(
        figure,
        f"One plane for all panels, fitted to both clouds of the last one{shown}. Apart: distance "
        "of the mean rows in warm spreads; spread ratio: cold over warm; both in all dimensions.",
    )
    return figure


def _limits(places: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The corners of everything, and some room around it."""
    every_I2 = np.concatenate(list(places))
    low_2, high_2 = every_I2.min(axis=0), every_I2.max(axis=0)
    room_2 = np.where(high_2 > low_2, 0.05 * (high_2 - low_2), 1.0)
    return low_2 - room_2, high_2 + room_2


def _draw(panel: Axes, warm_W2: np.ndarray, cold_C2: np.ndarray) -> None:
    clouds = (("warm", warm_W2, GREY, "#202020", 1), ("cold", cold_C2, PALETTE[1], "#8A3D00", 3))
    for kind, place_I2, shade, _, layer in clouds:
        panel.scatter(
            place_I2[:, 0],
            place_I2[:, 1],
            s=14,
            color=shade,
            alpha=0.5,
            linewidths=0,
            label=kind,
            zorder=layer,
            rasterized=True,  # tens of thousands of points would make an SVG that nobody can open
        )
    for kind, place_I2, _, shade, _ in clouds:
        x, y = place_I2.mean(axis=0)
        # thin, long and under the cold rows, which may all lie in one place
        panel.scatter(
            [x],
            [y],
            s=180,
            marker="+",
            color=shade,
            linewidths=1.6,
            label=f"mean of {kind}",
            zorder=2,
        )


# Warm rows against generated ones over rounds: do new items come to lie where old ones do?

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
    callbacks: Callbacks = (),
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
    found = replay(run, threads=threads, callbacks=callbacks, warn=warn)
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
