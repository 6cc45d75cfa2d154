"""Validation by round, of one run or of several in one figure."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.errors import TacitError, nearest
from tacit.experiment.amounts import whole_text
from tacit.experiment.figures import caption, colour, legend_outside, marker, new_figure
from tacit.experiment.sweep_result import RANKING_WORDS


def curves(runs: Sequence[FinishedRun], *, metric: str = "HR@10", ranking: str = "full") -> Finding:
    """The validation metric after every round that was evaluated, with the selected round marked.

    >>> curves([], ranking="ful")
    Traceback (most recent call last):
    tacit.errors.TacitError: Unknown ranking 'ful'; did you mean 'full'? Known: full, sampled99.
    """
    if ranking not in RANKING_WORDS:
        raise TacitError(f"Unknown ranking {ranking!r}; {nearest(ranking, RANKING_WORDS)}")
    require_alike(runs)
    figure, (panel,) = new_figure(width=6.4)
    every, summary = [], []
    for place, run in enumerate(runs):
        points = _points(run, metric, ranking)
        selected = run.result["selected_round"]
        x, y = [at for at, _ in points], [value for _, value in points]
        panel.plot(
            x, y, color=colour(place), label=run.name, marker="." if len(points) < 30 else None
        )
        at_selected = dict(points).get(selected)
        if at_selected is not None:
            panel.plot(selected, at_selected, marker(place), color=colour(place), markersize=9)
        best_round, best = max(points, key=lambda point: (point[1], point[0]))
        every += [(run.name, at, value) for at, value in points]
        summary.append((run.name, len(run.history), best, best_round, at_selected, selected))
    panel.set_xlabel("round")
    panel.set_ylabel(f"validation {metric}, {RANKING_WORDS[ranking]}")
    panel.set_ylim(bottom=0)
    panel.set_title(runs[0].place, fontsize=11)
    legend_outside(figure, panel)
    caption(figure, "The large marker is the round whose model the run kept.")
    title = f"Validation {metric}, {RANKING_WORDS[ranking]}"
    columns = (
        Column("run", word),
        Column("rounds", whole_text),
        Column("best"),
        Column("at round", whole_text),
        Column("selected"),
        Column("selected round", whole_text),
    )
    points_table = Table(
        "curves",
        title,
        (Column("run", word), Column("round", whole_text), Column(metric)),
        tuple(every),
    )
    return Finding(
        "curves",
        (Table("curves-summary", title, columns, tuple(summary)),),
        figure,
        unprinted=(points_table,),
    )


def _points(run: FinishedRun, metric: str, ranking: str) -> list[tuple[int, float]]:
    valid = {r["round"]: r["valid"][ranking] for r in run.history if r.get("valid")}
    if not valid:
        raise TacitError(f"{run.name} has no round with validation; train again.")
    known = next(iter(valid.values()))
    if metric not in known:
        raise TacitError(f"No {metric!r} by round in {run.name}; {nearest(metric, known)}")
    return [(at, float(values[metric])) for at, values in valid.items()]
