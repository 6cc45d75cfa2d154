"""The interaction attack as people and programs read it: tables, one JSON object, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Table, word
from tacit.attack.interactions import ATTACKERS, Interactions
from tacit.attack.page import (
    Page,
    claimed,
    draw_estimates,
    estimate_text,
    figure_over_runs,
    names_by_epsilon,
    notes_on_controls,
)
from tacit.experiment.amounts import whole_text
from tacit.experiment.charts import caption, legend_outside, new_figure, spans_decades

READING = (
    "AUC: how often an item of a person's history has a higher score than another item; 0.5 is "
    "chance, 1 is the whole history. `without` is the same attack on another client's upload, or "
    "on an equal sum without the person: what is known of everybody. Intervals are 95 %, over the "
    "people attacked. What these attackers did not find, a better one may find; only a guarantee "
    "speaks of all of them."
)


def interactions_page(found: Sequence[Interactions]) -> Page:
    """What is printed, all numbers, and a figure each of single uploads and of sums."""
    attempts = [one for run in found for one in run.attempts]
    figures = {}
    if any(one.clients == 1 for one in attempts):
        figures["uploads"] = uploads_figure(found)
    if any(one.clients > 1 for one in attempts):
        figures["sums"] = sums_figure(found)
    runs = {"runs": [run_as_json(one) for one in found]}
    controls = [control for run in found for control in run.controls]
    tables = (text_table(found),)
    said = (READING, *note_on_guarantees(found), *notes_on_controls(controls))
    return Page("interactions", tables, number_table(found), runs, figures, said)


def note_on_guarantees(found: Sequence[Interactions]) -> list[str]:
    """How often something is left of a person in sums that have a guarantee; some of that is luck,
    since there are many intervals."""
    differences = [
        one.difference
        for run in found
        for one in run.attempts
        if run.guarantee is not None and one.clients > 1
    ]
    if not differences:
        return []
    above = sum(one.low > 0 for one in differences)
    below = sum(one.high < 0 for one in differences)
    return [
        f"Under a guarantee {above} of {len(differences)} intervals of sums lie above 0, and "
        f"{below} below; by luck alone 2.5 % would lie on either side."
    ]


def run_as_json(one: Interactions) -> dict[str, Any]:
    """Everything that was found of one experiment, as plain values."""
    value = asdict(one)
    value["run"] = value.pop("name")
    value["privacy"] = value.pop("guarantee")
    return value


def text_table(found: Sequence[Interactions]) -> Table:
    """One row for each run, number of clients and attacker; of sums those of all rounds seen."""
    title = f"Which of {found[0].items} items stand in the histories of {found[0].targets} people"
    columns = [Column("run", word), Column("attacker", word)]
    columns += [Column(name, whole_text) for name in ("clients", "rounds")]
    columns += [Column(name, estimate_text) for name in ("AUC", "AUC less without")]
    rows: list[tuple[Any, ...]] = []
    for name, run in zip(names_by_epsilon(found), found, strict=True):
        for one in run.attempts:
            if one.clients > 1 and one.rounds < len(run.rounds):
                continue
            numbers = one.auc, one.difference
            # a long name in every row would take the room of the numbers
            label = "" if rows and rows[-1][-1] is run else name
            rows.append((label, one.attacker, one.clients, one.rounds, *numbers, run))
    return Table("interactions", title, tuple(columns), tuple(row[:-1] for row in rows))


def number_table(found: Sequence[Interactions]) -> Table:
    """All attempts and controls unrounded, a number in a column, for the CSV file."""
    columns = [
        Column(name, word) for name in ("run", "epsilon", "delta", "view", "sees", "attacker")
    ]
    columns += [Column(name, whole_text) for name in ("clients", "rounds")]
    for name in ("AUC", "without", "difference"):
        columns += [Column(name), Column(f"{name} low"), Column(f"{name} high")]
    rows: list[tuple[Any, ...]] = []
    for run in found:
        said = run.name, *claimed(run)
        for one in run.attempts:
            what = "an upload" if one.clients == 1 else "a sum", one.attacker
            numbers = *one.auc.numbers, *one.without.numbers, *one.difference.numbers
            rows.append((*said, *what, one.clients, one.rounds, *numbers))
        for control in run.controls:
            what = control.name, control.attacker
            rows.append((*said, *what, 1, 1, *control.auc.numbers, *(None,) * 6))
    return Table("interactions", "Interaction attack", tuple(columns), tuple(rows))


def uploads_figure(found: Sequence[Interactions]) -> Figure:
    """AUC from single uploads."""
    seen = max(one.rounds for run in found for one in run.attempts if one.clients == 1)
    series = {
        attacker: [
            (float(place), one.auc)
            for place, run in enumerate(found)
            for one in run.attempts
            if (one.clients, one.rounds, one.attacker) == (1, seen, attacker)
        ]
        for attacker in ATTACKERS
    }
    often = "one round" if seen == 1 else f"{seen} rounds"
    note = f"{found[0].targets} people attacked from their uploads of {often}, 95 % intervals."
    return figure_over_runs(found, series, "AUC of history items", note)


def sums_figure(found: Sequence[Interactions]) -> Figure:
    """What the person's being there adds to the AUC from sums, one panel for each attacker."""
    figure, panels = new_figure(len(ATTACKERS), width=3.4, height=3.2, columns=2)
    names = names_by_epsilon(found)
    for panel, attacker in zip(panels, ATTACKERS, strict=True):
        series = {}
        for name, run in zip(names, found, strict=True):
            seen = max(one.rounds for one in run.attempts)
            series[name] = [
                (float(one.clients), one.difference)
                for one in run.attempts
                if (one.rounds, one.attacker) == (seen, attacker)
            ]
        draw_estimates(panel, series, chance=0.0)
        clients = sorted({one.clients for run in found for one in run.attempts})
        if spans_decades(clients):
            panel.set_xscale("log")
        panel.set_xticks(clients, [str(one) for one in clients])
        panel.minorticks_off()
        panel.set_xlabel("clients in the sum")
        panel.set_ylabel("AUC less that without")
        panel.set_title(attacker, fontsize=11)
    legend_outside(figure, panels[0])
    caption(
        figure,
        "How much better a person's items are found for the person being in the sum, 95 % "
        "intervals; 0 is nothing.",
    )
    return figure
