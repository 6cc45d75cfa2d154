"""What the router of a content fusion learnt: weights of views and inputs, user by user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit import streams
from tacit.analysis.embeddings import auc
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.groups import user_groups
from tacit.engines.explain import explain, fused, views_of
from tacit.engines.scoring import client_parameters
from tacit.errors import TacitError
from tacit.experiment.amounts import whole_text
from tacit.experiment.charts import GREY, caption, colour, marker, new_figure
from tacit.experiment.prepare import Prepared

# Each user's weights: of views, as the router gives them, and of inputs, as scores tell.

MEAN_ITEM = 100  # items that stand for the catalogue


@dataclass(frozen=True, eq=False)
class UserWeights:
    """One row per user; NaN for users without train items.

    `weight_UV` are the router's weights. `change_UM` is the mean absolute change of the scores of
    the user's own train items when an input is dropped. What an input adds to all items alike
    changes scores but no ranking, and it may lower own items as well as raise them: `lift_UM` is
    by how much more the input raises own train items than the mean item.
    """

    views: tuple[str, ...]
    inputs: tuple[str, ...]
    weight_UV: np.ndarray
    change_UM: np.ndarray
    lift_UM: np.ndarray

    @property
    def deviation_UV(self) -> np.ndarray:
        """From the mean user."""
        return self.weight_UV - np.nanmean(self.weight_UV, axis=0)

    @property
    def deviation_U(self) -> np.ndarray:
        """Half the sum of the absolute differences: 0 is the mean user, 1 is all weight elsewhere.

        >>> weight_UV = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
        >>> nothing = np.zeros((3, 0))
        >>> UserWeights(("a", "b"), (), weight_UV, nothing, nothing).deviation_U.tolist()
        [0.5, 0.0, 0.5]
        """
        return np.abs(self.deviation_UV).sum(axis=1) / 2

    @property
    def is_routed(self) -> bool:
        return len(self.views) > 1


def user_weights(run: FinishedRun) -> UserWeights:
    """The weights of all users of a run, one user at a time."""
    encoder = fused(run.experiment.method)
    if encoder is None:
        raise TacitError(
            f"{run.name} reads nothing of an item but its id, so it has neither router nor "
            "modalities; give a run with content, as --with fedmr or --with fedvlr makes it."
        )
    algorithm, train = run.algorithm, run.prepared.split.train
    views, inputs = views_of(algorithm.method), encoder.inputs
    generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("mean item"))
    some = generator.permutation(train.n_items)[:MEAN_ITEM]
    weight_UV = np.full((train.n_users, len(views)), np.nan)
    change_UM, lift_UM = (np.full((train.n_users, len(inputs)), np.nan) for _ in range(2))
    for user in range(train.n_users):
        own_H = np.unique(train.positives[user])
        if not len(own_H):
            continue
        p = client_parameters(algorithm, run.state, user, train.history(user))
        found = explain(algorithm, p, np.concatenate([own_H, some]))
        here = found.input_NM[: len(own_H)]
        weight_UV[user] = found.weight_NV[: len(own_H)].mean(axis=0)
        change_UM[user] = np.abs(here).mean(axis=0)
        lift_UM[user] = here.mean(axis=0) - found.input_NM[len(own_H) :].mean(axis=0)
    return UserWeights(views, inputs, weight_UV, change_UM, lift_UM)


# Do learnt weights know who chooses by what? Asked of a planted dataset, which knows.

PREFERENCE = "modality_preference_U"  # in the truth of a planted dataset: 0 by image, 1 by text
DRAWS = 2000


@dataclass(frozen=True)
class Separation:
    """An AUC over pairs of users, its 95 % interval over users, and how many of each kind.

    >>> Separation(0.9, 0.8, 0.95, 10, 12).by_image
    10
    """

    auc: float
    low: float
    high: float
    by_image: int
    by_text: int


def separation(value_U: np.ndarray, by_text_U: np.ndarray, seed: int = 0) -> Separation | None:
    """How often a user who chooses by image (0) has a larger value than one who chooses by text
    (1); those in between, and users without a value (NaN), have no part. None without both kinds.

    >>> found = separation(np.array([2.0, 3.0, 1.0, 9.0]), np.array([0.0, 0.0, 1.0, 0.5]))
    >>> found.auc, found.by_image, found.by_text
    (1.0, 2, 1)
    """
    kept_U = ~np.isnan(value_U) & np.isin(by_text_U, (0.0, 1.0))
    value_E, by_text_E = value_U[kept_U], by_text_U[kept_U] == 1.0
    point = auc(value_E[~by_text_E], value_E[by_text_E])
    if point is None:
        return None
    generator = streams.numpy_generator(seed, streams.RESAMPLE, 0, streams.name_of("separation"))
    found = []
    for _ in range(DRAWS):
        drawn = generator.integers(0, len(value_E), size=len(value_E))
        one = auc(value_E[drawn][~by_text_E[drawn]], value_E[drawn][by_text_E[drawn]])
        if one is not None:  # a draw without one of the kinds says nothing
            found.append(one)
    low, high = np.quantile(found, [0.025, 0.975])
    by_text = int(by_text_E.sum())
    return Separation(point, float(low), float(high), len(value_E) - by_text, by_text)


# Router weights against activity, deviations by group, weights of inputs, and the truth.

LEAST_SHOWN = 0.05  # how far an axis of deviations goes at least

FIRST_INPUT = 3  # inputs have other colours than the first views


def router_figure(
    runs: Sequence[FinishedRun],
    found: Mapping[str, UserWeights],
    members: Mapping[str, np.ndarray],
    prepared: Prepared,
) -> Figure:
    """A row of panels for each run."""
    truth_U = prepared.dataset.truth.get(PREFERENCE)
    size_U = prepared.split.train.positives.size_U
    shown = {name: user_G for name, user_G in members.items() if name != "all"}
    routed = any(one.is_routed for one in found.values())
    across = (2 if routed else 0) + 1 + (truth_U is not None)
    columns = 2 if across == 4 and len(runs) == 1 else across
    figure, panels = new_figure(across * len(runs), width=5.2, height=4.2, columns=columns)
    for place, run in enumerate(runs):
        own = panels[across * place : across * (place + 1)]
        one, rest = found[run.name], own[2 if routed else 0 :]
        if one.is_routed:
            _against_activity(own[0], one, size_U, members)
            _deviations(own[1], one, shown)
        elif routed:
            for panel in own[:2]:
                panel.set_axis_off()
                panel.text(0.5, 0.5, "nothing is routed", ha="center", transform=panel.transAxes)
        _draw_inputs(rest[0], one, shown)
        if truth_U is not None:
            _draw_truth(rest[1], one, truth_U)
        # the run's name may be long: it stands in a line of its own above the row
        own[0].set_title(f"{run.name}\n{own[0].get_title(loc='left')}", fontsize=11, loc="left")
    figure.suptitle(runs[0].place, fontsize=12)
    views = (
        "Points are users, lines the means of quartiles by train items. Deviations are from the "
        "mean user; diamonds are half the absolute differences, averaged over the group. "
    )
    caption(
        figure,
        f"{views if routed else ''}Lift: how much more an input raises the scores of own train "
        "items than that of the mean item.",
    )
    return figure


def _against_activity(
    panel: Axes, one: UserWeights, size_U: np.ndarray, members: Mapping[str, np.ndarray]
) -> None:
    quartiles = [user_G for name, user_G in members.items() if name.startswith("quartile")]
    known = members["all"]
    for place, name in enumerate(one.views):
        weight_U, shade = one.weight_UV[:, place], colour(place)
        panel.scatter(size_U[known], weight_U[known], s=9, alpha=0.35, color=shade, linewidths=0)
        panel.plot(
            [float(np.mean(size_U[user_G])) for user_G in quartiles if len(user_G)],
            [float(np.mean(weight_U[user_G])) for user_G in quartiles if len(user_G)],
            color=shade,
            marker=marker(place),
            markeredgecolor="#202020",
            markeredgewidth=0.6,
            label=name,
        )
    panel.set_xscale("log")
    low, high = int(size_U[known].min()), int(size_U[known].max())
    ticks = [at for at in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= at <= high]
    panel.set_xticks(ticks, [str(at) for at in ticks])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("train items of a user")
    panel.set_ylabel("weight of a view")
    panel.set_title("weights of views", fontsize=11, loc="left")
    _legend(panel, len(one.views))


def _deviations(panel: Axes, one: UserWeights, members: Mapping[str, np.ndarray]) -> None:
    means = {group: one.deviation_UV[user_G].mean(axis=0) for group, user_G in members.items()}
    _bars(panel, one.views, means, 0)
    apart = [float(one.deviation_U[user_G].mean()) for user_G in members.values()]
    panel.plot(apart, range(len(apart)), "D", color="#202020", markersize=5, label="mean deviation")
    low, high = panel.get_xlim()  # rounding errors are not drawn as if they were differences
    panel.set_xlim(min(low, -LEAST_SHOWN), max(high, LEAST_SHOWN))
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
    panel.set_xlabel("weight minus that of the mean user")
    panel.set_title("deviation by group", fontsize=11, loc="left")
    _legend(panel, len(one.views) + 1)


def _draw_inputs(panel: Axes, one: UserWeights, members: Mapping[str, np.ndarray]) -> None:
    means = {group: one.lift_UM[user_G].mean(axis=0) for group, user_G in members.items()}
    _bars(panel, one.inputs, means, FIRST_INPUT)
    panel.set_xlabel("lift of own train items by an input, logits")
    panel.set_title("what inputs do for own items", fontsize=11, loc="left")
    _legend(panel, len(one.inputs))


def _bars(panel: Axes, names: Sequence[str], means: Mapping[str, np.ndarray], first: int) -> None:
    thick = 0.8 / len(names)
    for place, name in enumerate(names):
        y = np.arange(len(means)) + (place - (len(names) - 1) / 2) * thick
        value = [float(mean[place]) for mean in means.values()]
        panel.barh(y, value, height=thick * 0.92, color=colour(first + place), label=name)
    panel.axvline(0, color="#202020", linewidth=0.8)
    panel.set_yticks(range(len(means)), list(means))
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")


def _draw_truth(panel: Axes, one: UserWeights, by_text_U: np.ndarray) -> None:
    if not {"text", "image"} <= {*one.inputs}:
        panel.set_axis_off()
        return
    text, image = one.inputs.index("text"), one.inputs.index("image")
    value_U = one.lift_UM[:, image] - one.lift_UM[:, text]
    known_U = ~np.isnan(value_U)
    groups = {
        name: value_U[known_U & (by_text_U == code)]
        for name, code in (("by image", 0.0), ("by both", 0.5), ("by text", 1.0))
    }
    low, high = np.quantile(value_U[known_U], [0.01, 0.99])  # a few users far out hide the rest
    bins = np.linspace(low, max(high, low + 1e-6), 16).tolist()
    panel.hist(
        [np.clip(value, low, high) for value in groups.values()],
        bins=bins,
        color=[colour(1), GREY, colour(0)],
        label=list(groups),
    )
    panel.set_xlabel("lift by image minus lift by text")
    panel.set_ylabel("users")
    panel.set_title("by what users choose in truth", fontsize=11, loc="left")
    _legend(panel, len(groups))


def _legend(panel: Axes, count: int) -> None:
    panel.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=min(4, count),
        frameon=False,
        fontsize=9,
        columnspacing=1.0,
        handletextpad=0.4,
    )


# What the router of a content fusion learnt: weights of views and inputs, user by user.

MEASURES = ("change", "lift")


def router(runs: Sequence[FinishedRun], *, n: int = 100) -> Finding:
    """Weights of views and inputs by groups of users; one row per user in a file. In a planted
    dataset also how well they tell who chooses by image from who chooses by text.

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
