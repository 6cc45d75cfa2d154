"""The membership attack as people and programs read it: a table, one JSON object, a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Table, word
from tacit.attack.membership import INFLUENCE, SCORE, Membership
from tacit.attack.page import (
    Page,
    claimed,
    estimate_text,
    figure_over_runs,
    names_by_epsilon,
    notes_on_controls,
)
from tacit.experiment.amounts import DASH, whole_text

READING = (
    "AUC: how often a model with the person looks more like one than a model without; 0.5 is "
    "chance, 1 is certainty. Rates are counted on models that taught the attacker nothing; epsilon "
    "is at least the last column, with 95 % confidence, and no guarantee may be below it. Few "
    "models prove little: the bound grows with their number."
)
CONTRADICTED = (
    "{} states epsilon {:.4g}, and the attack {!r} proves at least {:.4g}: the statement is wrong."
)


def membership_page(found: Sequence[Membership]) -> Page:
    """The attacks in a table, all numbers in a file, and a figure."""
    runs = {"runs": [_run_as_json(one) for one in found]}
    figures = {"auc": auc_figure(found)}
    return Page(
        "membership", (text_table(found),), number_table(found), runs, figures, notes(found)
    )


def notes(found: Sequence[Membership]) -> tuple[str, ...]:
    """How to read it, what contradicts a guarantee, and what the controls gave."""
    said = [READING]
    for run in found:
        stated = math.inf if run.guarantee is None else run.guarantee.epsilon
        said += [
            CONTRADICTED.format(run.name, stated, one.attacker, one.bound.epsilon)
            for one in run.attempts
            if one.bound.epsilon > stated
        ]
    controls = [one for run in found for one in run.controls]
    return (*said, *notes_on_controls(controls))


def _run_as_json(one: Membership) -> dict[str, Any]:
    value = asdict(one)
    value["run"], value["privacy"] = value.pop("name"), value.pop("guarantee")
    return value


def bound_text(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def text_table(found: Sequence[Membership]) -> Table:
    """One row for each run and attack."""
    one = found[0]
    title = (
        f"Was {one.person} ({one.history} items) there? {one.models} models of {one.users} others"
    )
    columns = (
        *(Column(name, word) for name in ("run", "attacker")),
        *(Column(name, estimate_text) for name in ("AUC", "true alarms", "false alarms")),
        Column("ε at least", bound_text),
    )
    rows = tuple(
        (
            *(name if attempt is run.attempts[0] else "", attempt.attacker),
            *(attempt.auc, attempt.true_rate, attempt.false_rate, attempt.bound.epsilon),
        )
        for name, run in zip(names_by_epsilon(found), found, strict=True)
        for attempt in run.attempts
    )
    return Table("membership", title, columns, rows)


def number_table(found: Sequence[Membership]) -> Table:
    """The same rows unrounded, and the controls, a number in a column, for the CSV file."""
    names = ("run", "epsilon", "delta", "view", "person", "attacker", "sees")
    columns = [Column(name, word) for name in names]
    columns += [Column(name, whole_text) for name in ("models", "users")]
    for name in ("AUC", "true rate", "false rate"):
        columns += [Column(name), Column(f"{name} low"), Column(f"{name} high")]
    columns.append(Column("epsilon at least"))
    rows: list[tuple[Any, ...]] = []
    for run in found:
        said, counts = (run.name, *claimed(run), run.person), (run.models, run.users)
        for one in run.attempts:
            rates = *one.true_rate.numbers, *one.false_rate.numbers
            numbers = *one.auc.numbers, *rates, one.bound.epsilon
            rows.append((*said, one.attacker, "the model", *counts, *numbers))
        for control in run.controls:
            what = control.attacker, control.name
            rows.append((*said, *what, *counts, *control.auc.numbers, *(None,) * 7))
    return Table("membership", "Membership attack", tuple(columns), tuple(rows))


def auc_figure(found: Sequence[Membership]) -> Figure:
    """AUC of both attacks."""
    series = {
        name: [
            (float(place), attempt.auc)
            for place, run in enumerate(found)
            for attempt in run.attempts
            if attempt.attacker == name
        ]
        for name in (INFLUENCE, SCORE)
    }
    note = f"{found[0].models} models of each run, half of them with the person; 95 % intervals."
    return figure_over_runs(found, series, "AUC of being there", note)
