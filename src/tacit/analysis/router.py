"""What the router of a content fusion learnt: weights of views and inputs, user by user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.router_figure import router_figure
from tacit.analysis.router_users import MEAN_ITEM, UserWeights, user_weights
from tacit.analysis.separation import PREFERENCE, separation
from tacit.analysis.user_groups import user_groups
from tacit.errors import TacitError
from tacit.experiment.amounts import whole_text

MEASURES = ("change", "lift")


def router(runs: Sequence[FinishedRun], *, n: int = 100) -> Finding:
    """Weights of views and inputs by groups of users; one row per user in a file. In a planted
    world also how well they tell who chooses by image from who chooses by text.

    >>> router([], n=0)
    Traceback (most recent call last):
    tacit.errors.TacitError: n is 0; a group needs at least 1 user.
    """
    if n < 1:
        raise TacitError(f"n is {n}; a group needs at least 1 user.")
    require_alike(runs)
    found = {run.name: user_weights(run) for run in runs}
    prepared = runs[0].prepared
    rows = prepared.dataset.interactions
    members = user_groups(prepared.split.train, rows.users, rows.items, n)
    tables = [
        table
        for table in (
            _views(found, members, runs[0].place),
            _inputs(found, members, runs[0].place),
            _truth(found, prepared.dataset.truth),
        )
        if table.rows
    ]
    users = _users(found, members, rows.users, prepared.split.train.positives.size_U)
    figure = router_figure(runs, found, members, prepared)
    return Finding("router", tuple(tables), figure, _sentences(found, tables), (users,))


Found = dict[str, UserWeights]  # by run
Members = dict[str, np.ndarray]  # users by group


def _names(groups: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for group in groups for name in group))


def _cells(names: Sequence[str], own: Sequence[str], value: np.ndarray) -> list[float | None]:
    """A value for every name of the table; nothing where a run does not know the name."""
    known = dict(zip(own, value.tolist(), strict=True))
    return [known.get(name) for name in names]


def _views(found: Found, members: Members, place: str) -> Table:
    routed = {name: one for name, one in found.items() if one.is_routed}
    names = _names(one.views for one in routed.values())
    rows = [
        (
            run,
            group,
            len(user_G),
            *_cells(names, one.views, one.weight_UV[user_G].mean(axis=0)),
            float(one.deviation_U[user_G].mean()),
        )
        for run, one in routed.items()
        for group, user_G in members.items()
    ]
    columns = (
        *(Column(name, word) for name in ("run", "group")),
        Column("users", whole_text),
        *(Column(name) for name in names),
        Column("deviation"),
    )
    return Table("router", f"Mean weights of views, {place}", columns, tuple(rows))


def _inputs(found: Found, members: Members, place: str) -> Table:
    names = _names(one.inputs for one in found.values())
    rows = [
        (
            run,
            group,
            len(user_G),
            *_cells(names, one.inputs, one.change_UM[user_G].mean(axis=0)),
            *_cells(names, one.inputs, one.lift_UM[user_G].mean(axis=0)),
        )
        for run, one in found.items()
        for group, user_G in members.items()
    ]
    columns = (
        *(Column(name, word) for name in ("run", "group")),
        Column("users", whole_text),
        *(Column(f"{measure} {name}") for measure in MEASURES for name in names),
    )
    return Table("router-modalities", f"Weights of inputs, {place}", columns, tuple(rows))


def _truth(found: Found, truth: Any) -> Table:
    """Rows only where the data knows by what its users choose."""
    rows = []
    for run, one in found.items() if PREFERENCE in truth else ():
        for measure, value_U in differences(one).items():
            got = separation(value_U, truth[PREFERENCE])
            if got is not None:
                rows.append((run, measure, got.by_image, got.by_text, got.auc, got.low, got.high))
    columns = (
        *(Column(name, word) for name in ("run", "image minus text")),
        *(Column(name, whole_text) for name in ("by image", "by text")),
        *(Column(name) for name in ("AUC", "from", "to (95 %)")),
    )
    title = "Who chooses by image, who by text (planted truth)"
    return Table("router-truth", title, columns, tuple(rows))


def differences(one: UserWeights) -> dict[str, np.ndarray]:
    """Weight of the image minus weight of the text, user by user, in every way it is known."""
    found = {}
    if {"text", "image"} <= {*one.inputs}:
        text, image = one.inputs.index("text"), one.inputs.index("image")
        found["change"] = one.change_UM[:, image] - one.change_UM[:, text]
        found["lift"] = one.lift_UM[:, image] - one.lift_UM[:, text]
    if {"single_text", "single_image"} <= {*one.views}:
        text, image = one.views.index("single_text"), one.views.index("single_image")
        found["router"] = one.weight_UV[:, image] - one.weight_UV[:, text]
    return found


def _users(found: Found, members: Members, users: Sequence[str], size_U: np.ndarray) -> Table:
    views = _names(one.views for one in found.values())
    inputs = _names(one.inputs for one in found.values())
    quartile = {u: q for q in range(1, 5) for u in members[f"quartile {q}"].tolist()}
    rows = [
        (
            run,
            users[user],
            int(size_U[user]),
            quartile[user],
            *_cells(views, one.views, one.weight_UV[user]),
            *_cells(views, one.views, one.deviation_UV[user]),
            float(one.deviation_U[user]) if one.views else None,
            *_cells(inputs, one.inputs, one.change_UM[user]),
            *_cells(inputs, one.inputs, one.lift_UM[user]),
        )
        for run, one in found.items()
        for user in sorted(quartile)
    ]
    columns = (
        *(Column(name, word) for name in ("run", "user")),
        *(Column(name, whole_text) for name in ("train items", "quartile")),
        *(Column(f"weight {name}") for name in views),
        *(Column(f"deviation {name}") for name in views),
        Column("deviation"),
        *(Column(f"{measure} {name}") for measure in MEASURES for name in inputs),
    )
    return Table("router-users", "Weights of every user", columns, tuple(rows))


def _sentences(found: Found, tables: Sequence[Table]) -> tuple[str, ...]:
    said = [
        f"{name} has {'one view' if one.views else 'no views'}, so nothing is routed; its inputs "
        "are weighed all the same."
        for name, one in found.items()
        if not one.is_routed
    ]
    said += [
        f"All users of {name} have the same weights of views: the router tells nobody apart."
        for name, one in found.items()
        if one.is_routed and np.nanmax(one.deviation_U) < 1e-7
    ]
    if any(one.is_routed for one in found.values()):
        said.append(
            "Deviation: half the absolute differences from the mean user, 0 for the mean user, 1 "
            "at most."
        )
    said.append(
        "Change: how much a user's scores of own train items move (mean absolute, in logits) when "
        "an input is dropped. Lift: by how much more the input raises own train items than the "
        f"mean item (of {MEAN_ITEM} random ones); what all items gain alike moves none of them."
    )
    if any(table.name == "router-truth" for table in tables):
        said.append("AUC 0.5 is chance; the interval is a bootstrap over users.")
    return tuple(said)
