"""What an own item table brings: the same scorer with its own, the global and another's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.item_tables import exchanged
from tacit.evaluation.metrics import metric, per_user
from tacit.evaluation.ranking import rank
from tacit.evaluation.significance import paired_bootstrap
from tacit.experiment.comparison_text import difference_text
from tacit.experiment.figures import GREY, PALETTE, caption, legend_outside, new_figure

SHOWN = ("HR@10", "NDCG@10")
TABLES = ("own", "global", "another's", "personal part")  # in this order, each with its colour


def inference(runs: Sequence[FinishedRun]) -> Finding:
    """Test metrics of the kept model with exchanged item tables; scorers stay whose they are."""
    require_alike(runs)
    rows: list[tuple[Any, ...]] = []
    sentences: list[str] = []
    for run in runs:
        added, said = _rows(run)
        rows += added
        sentences += said
    columns = (
        Column("run", word),
        Column("table", word),
        *(Column(name) for name in SHOWN),
        *(Column(f"{name} vs 99") for name in SHOWN),
        Column("NDCG@10 against own (95 %)", word),
    )
    table = Table("inference", f"Test, {runs[0].place}", columns, tuple(rows))
    return Finding("inference", (table,), _figure(runs, table), tuple(sentences))


def _rows(run: FinishedRun) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
    ties, test = run.experiment.protocol.ties, run.prepared.split.test
    tables = exchanged(run.name, run.algorithm, run.state, run.scores, run.experiment.seed)
    own_E: np.ndarray | None = None
    rows = []
    for name, scores in tables.scores.items():
        evaluation = rank(scores, test)
        value_E = per_user(evaluation.full, "NDCG@10", ties)[1]
        own_E = value_E if name == "own" else own_E
        against = None
        if own_E is not None and name != "own":
            against = difference_text(paired_bootstrap(value_E, own_E))
        rows.append(
            (
                run.name,
                name,
                *(metric(evaluation.full, shown, ties) for shown in SHOWN),
                *(metric(evaluation.sampled, shown, ties) for shown in SHOWN),
                against,
            )
        )
    return rows, tables.sentences


def _figure(runs: Sequence[FinishedRun], table: Table) -> Figure:
    records = table.records()
    place_of: dict[str, list[float]] = {run.name: [] for run in runs}
    names = [run.name for run in runs]
    for number, record in enumerate(records):  # one under another, runs a little apart
        place_of[record["run"]].append(number + 0.6 * names.index(record["run"]))
    places = [at for several in place_of.values() for at in several]
    figure, panels = new_figure(len(SHOWN), width=4.6, height=1.6 + 0.36 * (places[-1] + 1))
    popularity = runs[0].result["reference"]["full"]["popularity"]
    for panel, metric_name in zip(panels, SHOWN, strict=True):
        for name, shade in zip(TABLES, PALETTE, strict=False):
            own = [
                (y, r[metric_name])
                for y, r in zip(places, records, strict=True)
                if r["table"] == name
            ]
            if own:
                label = name if name == "personal part" else f"{name} table"
                panel.barh([y for y, _ in own], [x for _, x in own], 0.9, color=shade, label=label)
            for y, x in own:
                panel.text(x, y, f" {x:.4f}", va="center", fontsize=9)
        panel.axvline(popularity[metric_name], color=GREY, linestyle="--", label="popularity")
        panel.set_xlabel(f"test {metric_name}, full ranking")
        middles = [float(np.mean(at)) for at in place_of.values()]
        panel.set_yticks(middles, list(place_of) if panel is panels[0] else [])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        panel.margins(x=0.18)
    legend_outside(figure, panels[0])
    figure.suptitle(runs[0].place, fontsize=11)
    caption(figure, "Each user's own scorer throughout; only the item table is exchanged.")
    return figure
