"""Groups as bars: what each run gives them, and what changed from one run to the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from tacit.analysis.finding import Table
from tacit.analysis.finished import FinishedRun
from tacit.analysis.user_groups import POPULAR
from tacit.experiment.figures import GREY, caption, colour, legend_outside, new_figure


def groups_figure(
    runs: Sequence[FinishedRun], members: dict[str, np.ndarray], tables: Sequence[Table]
) -> Figure:
    names = list(members)
    figure, panels = new_figure(len(runs), width=5.6, height=4.4)
    records = tables[0].records()
    thick = 0.8 / len(runs)
    for place, run in enumerate(runs):
        own = {record["group"]: record for record in records if record["run"] == run.name}
        y = np.arange(len(names)) + (place - (len(runs) - 1) / 2) * thick
        value = [own[name]["NDCG@10"] or 0.0 for name in names]
        panels[0].barh(y, value, height=thick, color=colour(place), label=run.name)
    panels[0].set_xlabel("test NDCG@10, full ranking")
    if len(runs) == 2:
        shift = [record["NDCG@10"] for record in tables[1].records()]
        bars = [0.0 if value is None else value for value in shift]
        panels[1].barh(range(len(names)), bars, height=0.6, color=GREY)
        for row, value in enumerate(shift):
            text = "from 0" if value is None else f" {value:+.1f} % "
            side = "right" if (value or 0) < 0 else "left"
            panels[1].text(value or 0.0, row, text, va="center", ha=side, fontsize=9)
        panels[1].axvline(0, color="#202020", linewidth=0.8)
        panels[1].set_xlabel("relative change of NDCG@10, %")
        panels[1].margins(x=0.25)
    for place, panel in enumerate(panels):
        panel.set_yticks(range(len(names)), names if place == 0 else [])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
    if len(runs) > 1:
        legend_outside(figure, panels[0])
        figure.suptitle(runs[0].place, fontsize=11)
    else:
        figure.suptitle(f"{runs[0].name}, {runs[0].place}", fontsize=11)
    n = len(members["distinct"])
    caption(
        figure,
        f"Distinct users and followers: the {n} with the smallest and largest share of popular "
        f"items (top {POPULAR:.0%} by train count) in their train items. Quartile 1 has "
        "the fewest train items.",
    )
    return figure
