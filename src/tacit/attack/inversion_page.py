"""An inversion attack as people and programs read it: tables, one JSON object, figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple
from itertools import chain
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.projections.polar import PolarAxes

from tacit.analysis.finding import Column, Table, word
from tacit.attack.inversion import ONE, Attempt, Inversion
from tacit.attack.page import Page
from tacit.experiment.amounts import whole_text
from tacit.experiment.charts import caption, colour, legend_outside, marker, new_figure
from tacit.experiment.names import slug

# All measures of several runs at a glance: the larger a shape, the more the attacker learnt.

MEASURES = ("MSE", "MAE", "cosine", "Pearson", "structure")  # in the order of `Measures`


def radar_figure(found: Mapping[str, Inversion]) -> Figure:
    """One panel for each attacker; a run's colour is one, and the mean of its draws is dashed.

    >>> import numpy as np
    >>> from tacit.attack.inversion import invert
    >>> content_CF = np.random.default_rng(0).normal(size=(60, 3))
    >>> figure = radar_figure({"a run": invert(content_CF[None], content_CF, seeds=1)})
    >>> [panel.get_title() for panel in figure.axes]
    ['ridge', 'perceptron']
    """
    attackers = list(dict.fromkeys(a.attacker for one in found.values() for a in one.attacks))
    # the layout takes the names of the axes for shorter than they are
    layout = ConstrainedLayoutEngine(w_pad=0.25, h_pad=0.08)
    legend = 1.7 + 0.09 * max(map(len, found))  # inches
    figure = Figure(figsize=(5.0 * len(attackers) + legend, 5.0), layout=layout)
    panels = [
        figure.add_subplot(1, len(attackers), place + 1, projection="polar")
        for place in range(len(attackers))
    ]
    turns = [2 * math.pi * place / len(MEASURES) for place in range(len(MEASURES))]
    for panel, attacker in zip(panels, attackers, strict=True):
        assert isinstance(panel, PolarAxes)
        _dress(panel, attacker, turns)
        for place, (name, one) in enumerate(found.items()):
            for attempt in one.attacks:
                if attempt.attacker != attacker:
                    continue
                # a shape has no room for less than nothing; the table has the numbers
                values = [max(0.0, value) for value in astuple(one.leakage(attempt))]
                panel.plot(
                    [*turns, turns[0]],
                    [*values, values[0]],
                    color=colour(place),
                    marker=marker(place),
                    markersize=4,
                    linestyle="-" if attempt.view == ONE else "--",
                    label=f"{name}, {attempt.view}",
                )
    legend_outside(figure, panels[0])
    caption(
        figure,
        "Centre: nothing was learnt; rim: all is known. MSE and MAE: the part of the floor's error "
        "that is gone; structure: the part of the error with shuffled embeddings that is gone. "
        "Less than nothing is drawn as nothing.",
    )
    return figure


def _dress(panel: PolarAxes, attacker: str, turns: list[float]) -> None:
    panel.set_theta_zero_location("N")
    panel.set_theta_direction(-1)
    panel.set_xticks(turns, MEASURES)
    for turn, label in zip(turns, panel.get_xticklabels(), strict=True):
        side = math.sin(turn)
        label.set_horizontalalignment(
            "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
        )
    panel.tick_params(axis="x", pad=3)
    panel.set_ylim(0, 1)
    panel.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "0.5", "", "1"], color="#606060", fontsize=9)
    panel.set_rlabel_position(36)  # between two axes
    panel.grid(color="#D8D8D8", linewidth=0.8)
    panel.spines["polar"].set_color("#B0B0B0")
    panel.set_title(attacker, fontsize=11, pad=14)


# Heat maps of S' - S: where a reconstruction calls items more, or less, alike than they are.

SHADES = "RdBu_r"  # colour-blind readers tell its ends apart
SCALE = Normalize(-1, 1)


def structure_figure(name: str, found: Inversion) -> Figure:
    """One panel for each attacker and view: the floor, then a row for each attacker that learns.

    >>> import numpy as np
    >>> from tacit.attack.inversion import invert
    >>> content_CF = np.random.default_rng(0).normal(size=(60, 3))
    >>> found = invert(content_CF[None], content_CF, seeds=1)
    >>> [panel.get_title() for panel in structure_figure("a run", found).axes[:3]]
    ['mean, sees nothing', 'ridge, sees shuffled', 'ridge, sees 1 draw']
    """
    learnt = found.attempts[1:]
    rows = len({one.attacker for one in learnt})
    columns = len(learnt) // rows + 1
    figure, panels = new_figure(rows * columns, width=2.9, height=3.0, columns=columns)
    waiting = list(learnt)
    for place, panel in enumerate(panels):
        if place % columns:
            _matrix(panel, waiting.pop(0))
        elif place == 0:
            _matrix(panel, found.floor)
        else:
            figure.delaxes(panel)
    figure.colorbar(
        ScalarMappable(SCALE, SHADES), ax=figure.axes, label="cosine, guess minus truth", shrink=0.8
    )
    figure.suptitle(name, fontsize=12)
    shown = len(found.floor.difference_VV)
    caption(
        figure,
        f"Pairs of {shown} random items whose content the attacker does not know, first seed. Red: "
        "called more alike than they are; blue: less; white: as they are, which is leakage. "
        "Shuffled is the control: the embeddings belong to other items.",
    )
    return figure


def _matrix(panel: Axes, attempt: Attempt) -> None:
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    panel.imshow(attempt.difference_VV, cmap=SHADES, norm=SCALE)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.set_title(f"{attempt.attacker}, sees {attempt.view}", fontsize=10)


# An inversion attack as people and programs read it: tables, one JSON object, figures.

# What MDiffFR's privacy section proves, and what of it holds for the generator as it is released.
BOUND = (
    "MDiffFR argues that diffusion hides content by bounding what an embedding can tell about it. "
    "The bound speaks of a generator that adds noise at every reverse step; the released one adds "
    "none, so the random start is all that differs between two draws, and the last step returns "
    "what the network makes of the content. The entropy that the argument counts on, (p/2) "
    "log(2 pi e variance), is taken to be positive; that needs a variance above 0.0585, and "
    "the paper's schedule has at most 0.0002, so it is negative and the comparison says nothing. "
    "Nor does a bound for one draw cover many: whoever is sent fresh draws round after round can "
    "average them. So no guarantee stands behind these numbers. They say what these attackers "
    "found; a better one may find more."
)
OTHER_CONTENT = (
    "These runs were generated from different content, so MSE, MAE and structure do not compare "
    "between them; compare each with its own floor, as the radar chart does."
)


def notes(found: Mapping[str, Inversion]) -> list[str]:
    """What must be known beside the numbers; the paragraph on the bound comes last.

    >>> notes({}) == [BOUND]
    True
    """
    # the same seeds leak the same items, so equal content has equal floors
    floors = {astuple(one.floor.mean) for one in found.values()}
    return [*([OTHER_CONTENT] if len(floors) > 1 else []), BOUND]


def spread_text(value: tuple[float, float | None]) -> str:
    """A mean over seeds with its deviation.

    >>> spread_text((0.12345, 0.0111)), spread_text((0.5, None))
    ('0.123 ±0.011', '0.500')
    """
    mean, deviation = value
    return f"{mean:.3f}" + ("" if deviation is None else f" ±{deviation:.3f}")


def text_table(found: Mapping[str, Inversion]) -> Table:
    """One row for each run, attacker and view, as it is printed.

    >>> import numpy as np
    >>> from tacit.attack.measures import Measures
    >>> one = Attempt("mean", "nothing", Measures(1.0, 0.8, 0.0, 0.0, 1.0), None, np.zeros((2, 2)))
    >>> text_table({"a run": Inversion(20, 80, 64, 64, 1, 1, (one,))}).texts()
    [['a run', 'mean', 'nothing', '1.000', '0.800', '0.000', '0.000', '1.000']]
    """
    one = next(iter(found.values()))
    title = f"Content of {one.unknown} cold items from their embeddings, {one.known} items leaked"
    columns = [Column(name, word) for name in ("run", "attacker", "sees")]
    columns += [Column(name, spread_text) for name in MEASURES]
    rows = []
    for name, result in found.items():
        for attempt in result.attempts:
            # a long name in every row would take the room of the numbers
            label = name if attempt is result.floor else ""
            rows.append((label, attempt.attacker, attempt.view, *_spreads(attempt)))
    return Table("inversion", title, tuple(columns), tuple(rows))


def _spreads(attempt: Attempt) -> list[tuple[float, float | None]]:
    means = astuple(attempt.mean)
    none = (None,) * len(means)
    deviations = none if attempt.deviation is None else astuple(attempt.deviation)
    return list(zip(means, deviations, strict=True))


def number_table(found: Mapping[str, Inversion]) -> Table:
    """The same rows unrounded, a number in a column, for the CSV file.

    >>> import numpy as np
    >>> from tacit.attack.measures import Measures
    >>> one = Attempt("mean", "nothing", Measures(1.0, 0.8, 0.0, 0.0, 1.0), None, np.zeros((2, 2)))
    >>> number_table({"a run": Inversion(20, 80, 64, 64, 1, 1, (one,))}).header[3:7]
    ['known', 'unknown', 'MSE', 'MSE deviation']
    """
    columns = [Column(name, word) for name in ("run", "attacker", "sees")]
    columns += [Column(name, whole_text) for name in ("known", "unknown")]
    for name in MEASURES:
        columns += [Column(name), Column(f"{name} deviation")]
    rows = tuple(
        (name, attempt.attacker, attempt.view, one.known, one.unknown, *chain(*_spreads(attempt)))
        for name, one in found.items()
        for attempt in one.attempts
    )
    return Table("inversion", "Inversion attack", tuple(columns), rows)


def inversion_page(found: Mapping[str, Inversion]) -> Page:
    """Tables, heat maps for each run and one radar chart.

    >>> import numpy as np
    >>> from tacit.attack.inversion import invert
    >>> content_CF = np.random.default_rng(0).normal(size=(60, 3))
    >>> list(inversion_page({"a run": invert(content_CF[None], content_CF, seeds=1)}).figures)
    ['radar', 'structure']
    """
    figures = {"radar": radar_figure(found)}
    for name, one in found.items():
        ending = f"-{slug(name)}" if len(found) > 1 else ""
        figures[f"structure{ending}"] = structure_figure(name, one)
    table = text_table(found)
    if len(found) == 1:  # its name in every row would only take room
        table = table.without("run")
    runs = [_run_as_json(name, one) for name, one in found.items()]
    said = tuple(notes(found))
    return Page("inversion", (table,), number_table(found), {"runs": runs}, figures, said)


def _run_as_json(name: str, one: Inversion) -> dict[str, Any]:
    attempts = [
        {
            "attacker": attempt.attacker,
            "sees": attempt.view,
            "mean": asdict(attempt.mean),
            "deviation": None if attempt.deviation is None else asdict(attempt.deviation),
            "leakage": asdict(one.leakage(attempt)) if attempt in one.attacks else None,
            "differences": attempt.difference_VV.tolist(),
        }
        for attempt in one.attempts
    ]
    counts = {
        count: getattr(one, count)
        for count in ("known", "unknown", "width", "content_width", "draws", "seeds")
    }
    return {"run": name, **counts, "attempts": attempts}
