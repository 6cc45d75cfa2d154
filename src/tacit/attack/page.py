"""An attack as people and programs read it: the frame that all attacks share.

A page has tables to print, all numbers unrounded for a CSV file, one JSON object, figures, and
sentences that must be known beside the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.analysis.finding import Table
from tacit.experiment.amounts import DASH
from tacit.experiment.charts import (
    GREY,
    caption,
    colour,
    legend_outside,
    marker,
    new_figure,
    save_figure,
)
from tacit.files import write_text
from tacit.privacy.guarantee import Guarantee


@dataclass(frozen=True, eq=False)
class Page:
    """What one command found; `name` is that of the attack or audit, and of its files.

    >>> page = Page("touch", (), Table("touch", "Touch", (), ()), {})
    >>> page.as_json["attack"], page.as_json["notes"]
    ('touch', [])
    """

    name: str
    tables: tuple[Table, ...]
    numbers: Table
    found: Mapping[str, Any]
    figures: Mapping[str, Figure] = field(default_factory=dict)  # by the end of their file's name
    notes: tuple[str, ...] = ()
    kind: Literal["attack", "audit"] = "attack"

    @property
    def as_json(self) -> dict[str, Any]:
        """Everything that was found, as plain values; the file and `--json` hold the same."""
        notes = list(self.notes)
        return {self.kind: self.name, **self.found, "notes": notes, "tacit": version("tacit")}

    def write(self, out: Path) -> list[Path]:
        """The numbers as CSV and JSON, and every figure as PNG and SVG.

        >>> import tempfile
        >>> page = Page("touch", (), Table("touch", "Touch", (), ()), {})
        >>> with tempfile.TemporaryDirectory() as place:
        ...     [path.name for path in page.write(Path(place))]
        ['touch.csv', 'touch.json']
        """
        numbers, page = out / f"{self.name}.csv", out / f"{self.name}.json"
        write_text(numbers, self.numbers.csv())
        write_text(page, json.dumps(self.as_json, indent=1))
        written = [numbers, page]
        for ending, figure in self.figures.items():
            written += save_figure(figure, out / f"{self.name}-{ending}")
        return written


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval.

    >>> Estimate(0.51, 0.48, 0.53).text
    '0.510 [0.480, 0.530]'
    """

    mean: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def numbers(self) -> tuple[float, float, float]:
        return self.mean, self.low, self.high

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def estimate_text(value: Estimate | None) -> str:
    """An estimate in a table; a dash where there is none.

    >>> estimate_text(None)
    '–'
    """
    return DASH if value is None else value.text


# Controls: what an attack is shown beside the truth, and what it must make of it.


@dataclass(frozen=True)
class Control:
    """Something of which the answer is known: the attack must succeed on it, or must fail.

    >>> Control("shuffled", "fail", "norm", Estimate(0.5, 0.49, 0.51), passed=True).must
    'fail'
    """

    name: str
    must: Literal["succeed", "fail"]
    attacker: str
    auc: Estimate
    passed: bool


def notes_on_controls(controls: Sequence[Control]) -> list[str]:
    """What the controls gave, all attackers together, and which of them did not pass.

    >>> notes_on_controls([Control("told", "succeed", "influence", Estimate(1.0, 1.0, 1.0), True)])
    ["The control 'told' must succeed: AUC 1.000 to 1.000."]
    """
    said = []
    for name in dict.fromkeys(one.name for one in controls):
        these = [one for one in controls if one.name == name]
        means = [one.auc.mean for one in these]
        said.append(
            f"The control {name!r} must {these[0].must}: AUC {min(means):.3f} to {max(means):.3f}."
        )
    said += [
        f"The control {one.name!r} with the attacker {one.attacker!r} must {one.must} and gave "
        f"{one.auc.text}: do not trust the numbers beside it."
        for one in controls
        if not one.passed
    ]
    return said


# Experiments that an attack sets side by side, with what each of them promises.


class Attacked(Protocol):
    """What was found of one experiment: its label, its method, and its guarantee if it has one."""

    @property
    def name(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def guarantee(self) -> Guarantee | None: ...


def epsilon_text(guarantee: Guarantee | None) -> str:
    """The epsilon of a guarantee; a dash without one.

    >>> epsilon_text(None)
    '–'
    """
    return DASH if guarantee is None else f"{guarantee.epsilon:.4g}"


def claimed(one: Attacked) -> tuple[float | None, float | None, str | None]:
    """Epsilon, delta and view of an experiment's guarantee, for a row of a file."""
    claim = one.guarantee
    return (None, None, None) if claim is None else (claim.epsilon, claim.delta, claim.view)


def names_by_epsilon(found: Sequence[Attacked]) -> list[str]:
    """Short names for a column or an axis: experiments by their epsilon, with the method where
    there are several, as long as that tells them apart; else by their labels."""
    several = len({one.method for one in found}) > 1
    short = []
    for one in found:
        said = "no guarantee" if one.guarantee is None else f"ε = {epsilon_text(one.guarantee)}"
        short.append(f"{one.method}, {said}" if several else said)
    return short if len(set(short)) == len(found) else [one.name for one in found]


def figure_over_runs(
    found: Sequence[Attacked],
    series: Mapping[str, Sequence[tuple[float, Estimate]]],
    label: str,
    note: str,
) -> Figure:
    """AUC of experiments from left to right, by their places; a series for each attacker, as a line
    where all experiments are of one method."""
    figure, (panel,) = new_figure(width=2.2 + 1.1 * max(len(found), 3), height=4.2)
    one_method = len({one.method for one in found}) == 1
    draw_estimates(panel, series, chance=0.5, line="-" if one_method else "")
    panel.set_xticks(range(len(found)), names_by_epsilon(found), rotation=25, ha="right")
    panel.set_ylim(0.3, 1.02)
    panel.set_ylabel(label)
    legend_outside(figure, panel)
    caption(
        figure, f"{note} Labels are runs, or the ε that is promised to one person for all rounds."
    )
    return figure


def draw_estimates(
    panel: Axes,
    series: Mapping[str, Sequence[tuple[float, Estimate]]],
    *,
    chance: float,
    line: str = "-",
) -> None:
    """Points with intervals for each series, over the places that they have on the axis; chance is
    a grey line.

    >>> from tacit.experiment.charts import new_figure
    >>> _, (panel,) = new_figure()
    >>> draw_estimates(panel, {"norm": [(0, Estimate(0.9, 0.8, 1.0))]}, chance=0.5)
    >>> panel.get_legend_handles_labels()[1]
    ['chance', 'norm']
    """
    panel.margins(x=0.08)
    panel.axhline(chance, color=GREY, linewidth=1.2, linestyle=":", label="chance")
    for place, (name, points) in enumerate(series.items()):
        means = [one.mean for _, one in points]
        below = [max(0.0, one.mean - one.low) for _, one in points]  # rounding may be below
        above = [max(0.0, one.high - one.mean) for _, one in points]
        panel.errorbar(
            [at for at, _ in points],
            means,
            yerr=[below, above],
            color=colour(place),
            marker=marker(place),
            markersize=4,
            capsize=3,
            linestyle=line,
            linewidth=1.2,
            label=name,
        )
