"""The grid of a sweep: which fields take which values, and the experiment at every point."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import TacitError
from tacit.experiment.names import slug
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment

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
