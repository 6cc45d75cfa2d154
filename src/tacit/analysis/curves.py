"""Validation and training loss by round, of one run or of several in one figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.errors import TacitError, nearest
from tacit.experiment.amounts import whole_text
from tacit.experiment.charts import (
    caption,
    colour,
    legend_outside,
    marker,
    new_figure,
    spans_decades,
)
from tacit.study.sweep import RANKING_WORDS

COLD_METRIC = "Recall@20"  # where every run has it: runs on untouched items, full ranking


def curves(
    runs: Sequence[FinishedRun], *, metric: str | None = None, ranking: str = "full"
) -> Finding:
    """The validation metric after every round that was evaluated, with the selected round marked,
    and beside it the training loss of every round, for runs that have one.

    Without a name the metric is HR@10, and Recall@20 for runs on items that nobody has touched.

    >>> curves([], ranking="ful")
    Traceback (most recent call last):
    tacit.errors.TacitError: Unknown ranking 'ful'; did you mean 'full'? Known: full, sampled99.
    """
    if ranking not in RANKING_WORDS:
        raise TacitError(f"Unknown ranking {ranking!r}; {nearest(ranking, RANKING_WORDS)}")
    require_alike(runs)
    if metric is None:
        measured = [values for run in runs for values in _validated(run, ranking).values()]
        metric = COLD_METRIC if all(COLD_METRIC in values for values in measured) else "HR@10"
    losses = {run.name: _losses(run) for run in runs}
    figure, panels = new_figure(2 if any(losses.values()) else 1, width=5.6)
    every, summary = [], []
    for place, run in enumerate(runs):
        points, loss = _points(run, metric, ranking), losses[run.name]
        selected = run.record.selected_round
        valid = dict(points)
        for panel, line in zip(panels, (valid, loss), strict=False):
            _line(panel, line, selected, place, run.name)
        best_round, best = max(points, key=lambda point: (point[1], point[0]))
        rounds = sorted({*valid, *loss})
        every += [(run.name, at, valid.get(at), loss.get(at)) for at in rounds]
        summary.append(
            (
                run.name,
                len(run.rounds),
                best,
                best_round,
                valid.get(selected),
                selected,
                loss.get(selected),
                loss[max(loss)] if loss else None,
            )
        )
    panels[0].set_ylabel(f"validation {metric}, {RANKING_WORDS[ranking]}")
    panels[0].set_ylim(bottom=0)
    said = "The large marker is the round whose model the run kept."
    if len(panels) == 2:
        panels[1].set_ylabel("training loss")
        said += (
            " Loss: the mean over the clients of a round; losses of different objectives, or with "
            "terms of their own, do not compare."
        )
        known = [value for loss in losses.values() for value in loss.values()]
        if spans_decades(known):
            panels[1].set_yscale("log")
            panels[1].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            panels[1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panels[1].yaxis.set_minor_locator(NullLocator())
    for panel in panels:
        panel.set_xlabel("round")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(runs[0].place, fontsize=11)
    legend_outside(figure, panels[0])
    caption(figure, said)
    title = f"Validation {metric}, {RANKING_WORDS[ranking]}"
    columns = (
        Column("run", word),
        Column("rounds", whole_text),
        Column("best"),
        Column("at round", whole_text),
        Column("selected"),
        Column("selected round", whole_text),
        Column("loss then"),
        Column("last loss"),
    )
    points_table = Table(
        "curves",
        title,
        (Column("run", word), Column("round", whole_text), Column(metric), Column("loss")),
        tuple(every),
    )
    return Finding(
        "curves",
        (Table("curves-summary", title, columns, tuple(summary)),),
        figure,
        unprinted=(points_table,),
    )


def _line(panel: Axes, line: dict[int, float], selected: int, place: int, name: str) -> None:
    shade, dots = colour(place), "." if len(line) < 30 else None
    panel.plot(list(line), list(line.values()), color=shade, label=name, marker=dots)
    if selected in line:
        # not clipped: the best round stands at the upper edge where all rounds are nearly as good
        panel.plot(
            selected, line[selected], marker(place), color=shade, markersize=9, clip_on=False
        )


def _losses(run: FinishedRun) -> dict[int, float]:
    """The training loss by round, where it is a number; nothing for methods that have none."""
    known = {line.round: line.loss for line in run.rounds}
    return {at: float(x) for at, x in known.items() if x is not None and math.isfinite(x)}


def _validated(run: FinishedRun, ranking: str) -> dict[int, Mapping[str, float]]:
    """What was measured, by round; never nothing."""
    valid = {one.round: one.valid.of(ranking) for one in run.rounds if one.valid is not None}
    if not valid:
        raise TacitError(f"{run.name} has no round with validation; train again.")
    return valid


def _points(run: FinishedRun, metric: str, ranking: str) -> list[tuple[int, float]]:
    valid = _validated(run, ranking)
    known = next(iter(valid.values()))
    if metric not in known:
        raise TacitError(f"No {metric!r} by round in {run.name}; {nearest(metric, known)}")
    return [(at, float(values[metric])) for at, values in valid.items()]
