"""The grid of a sweep, and a sweep as data: one row per setting, and the one validation prefers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import TacitError
from tacit.experiment.names import slug
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment

# The grid of a sweep: which fields take which values, and the experiment at every point.

# Runs that differ here are no settings of one method: their numbers do not compare, or a flag of
# its own says how many there are.
NO_AXIS = {
    "data": "runs on different data do not compare; sweep each on its own with --data",
    "protocol": "runs under different protocols do not compare; sweep each with --protocol",
    "seed": "seeds are averaged at every setting; say how many with --seeds",
}


@dataclass(frozen=True)
class Axis:
    """One `--over path=a,b,c`: the values as they were written.

    >>> Axis("local.items.rate", ("0.1", "1e-2")).numbers
    (0.1, 0.01)
    """

    path: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers, if all of them are."""
        try:
            return tuple(float(value) for value in self.values)
        except ValueError:
            return None


def axis_of(text: str) -> Axis:
    """Read `path=a,b,c`; commas within brackets belong to a value.

    >>> axis_of("local.epochs=1,2").values, axis_of("backbone.layers=[8,4],[16]").values
    (('1', '2'), ('[8,4]', '[16]'))
    """
    path, equals, rest = text.partition("=")
    path = path.strip()
    values = tuple(value.strip() for value in re.split(r",(?![^\[]*\])", rest))
    if not path or not equals or not all(values):
        raise TacitError(f"Cannot read --over {text!r}; write --over part.field=a,b,c.")
    first = path.split(".")[0]
    if first in NO_AXIS:
        raise TacitError(f"Cannot sweep over {path!r}: {NO_AXIS[first]}.")
    return Axis(path, values)


def points(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Every combination of values, the last axis fastest.

    >>> points([Axis("a", ("1", "2")), Axis("b", ("x",))])
    [('1', 'x'), ('2', 'x')]
    """
    return list(itertools.product(*(axis.values for axis in axes)))


def point_text(axes: Sequence[Axis], point: Sequence[str]) -> str:
    """A point as a person would write it.

    >>> point_text([Axis("a", ("1",)), Axis("b", ("x",))], ("1", "x"))
    'a=1, b=x'
    """
    return ", ".join(f"{axis.path}={value}" for axis, value in zip(axes, point, strict=True))


def point_folder(axes: Sequence[Axis], point: Sequence[str]) -> str:
    """A point as the name of a folder.

    >>> point_folder([Axis("a", ("1",)), Axis("b.c", ("[8,4]",))], ("1", "[8,4]"))
    'a=1+b.c=8_4'
    """
    pairs = zip(axes, point, strict=True)
    return "+".join(f"{slug(axis.path)}={slug(value)}" for axis, value in pairs)


def experiments_of(
    method: str, axes: Sequence[Axis], seeds: int, settings: dict[str, Any]
) -> list[tuple[Experiment, ...]]:
    """The experiments of every point, one per seed; all are checked before any is run.

    >>> grid = experiments_of("fedmf", [axis_of("local.epochs=1,2")], 1, {})
    >>> [one.method.local.epochs for (one,) in grid]
    [1, 2]
    """
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise TacitError(f"--over {path} is there twice; give all its values in one.")
    given = {key: value for key, value in settings.items() if key != "sets"}
    grid: dict[Experiment, tuple[str, ...]] = {}
    for point in points(axes):
        sets = [f"{path}={value}" for path, value in zip(paths, point, strict=True)]
        experiment = resolve(method, sets=[*settings.get("sets", ()), *sets], **given)
        if experiment in grid:
            raise TacitError(
                f"{point_text(axes, grid[experiment])} and {point_text(axes, point)} are the same "
                "setting; name it once."
            )
        grid[experiment] = point
    return [tuple(replace(one, seed=seed) for seed in range(seeds)) for one in grid]


# A sweep as data: one row per setting, and the one that validation prefers.

RANKING_WORDS = {"full": "full ranking", "sampled99": "99 sampled"}


def shown_metrics(selected_by: str) -> tuple[str, str]:
    """What a sweep shows of the test part, at the (first) cut-off of the metric that selects.

    >>> shown_metrics("NDCG@10"), shown_metrics("Recall@20+50+100")
    (('HR@10', 'NDCG@10'), ('Recall@20', 'NDCG@20'))
    """
    name, _, cutoffs = selected_by.partition("@")
    k = cutoffs.partition("+")[0]
    return f"{'Recall' if name == 'Recall' else 'HR'}@{k}", f"NDCG@{k}"


@dataclass(frozen=True, eq=False)
class Setting:
    """One point of the grid, seeds averaged; without values where training diverged.

    >>> test = {"full": {"HR@10": 0.3}}
    >>> Setting(("0.1",), 0.2, None, test, (7,), ("runs/one",), "no guarantee").validation
    0.2
    """

    values: tuple[str, ...]
    validation: float | None
    deviation: float | None  # over seeds
    test: Mapping[str, Mapping[str, float]] | None  # by ranking, then by metric
    selected_rounds: tuple[int, ...]
    runs: tuple[str, ...]
    privacy: str | None  # the guarantee that goes with the values, in words


@dataclass(frozen=True, eq=False)
class Sweep:
    """All settings in the order of the grid; `chosen` is the place of validation's choice.

    >>> axis, row = Axis("local.epochs", ("1",)), Setting(("1",), 0.2, None, None, (), (), None)
    >>> one = Sweep("m", "few", "clean", True, "", "HR@10", "full", (axis,), 1, (row,), 0, ())
    >>> one.choice
    'local.epochs=1: the setting that validation prefers (HR@10, full ranking)'
    """

    method: str
    dataset: str
    protocol: str
    clean: bool
    split: str
    metric: str  # of selection
    ranking: str
    axes: tuple[Axis, ...]
    seeds: int
    rows: tuple[Setting, ...]
    chosen: int
    notes: tuple[str, ...]

    @property
    def privacy(self) -> str:
        """The guarantees of all settings, in words; figures say it too."""
        return "; ".join(dict.fromkeys(row.privacy for row in self.rows if row.privacy))

    @property
    def choice(self) -> str:
        """Which setting, chosen by what."""
        seeds = f", mean of {self.seeds} seeds" if self.seeds > 1 else ""
        return (
            f"{point_text(self.axes, self.rows[self.chosen].values)}: the setting that validation "
            f"prefers ({self.metric}, {RANKING_WORDS[self.ranking]}{seeds})"
        )
