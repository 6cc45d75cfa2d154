"""The modality gap: all inputs of the items in one plane, before training and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit import streams
from tacit.analysis.embeddings import PROJECTIONS, Plane, user_code
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun
from tacit.core.parts import ItemEncoder
from tacit.core.types import CONTENT
from tacit.engines.explain import fused
from tacit.engines.scoring import client_parameters
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.amounts import DASH, metric_text, whole_text
from tacit.experiment.charts import caption, colour, legend_outside, marker, new_figure
from tacit.experiment.trainer import Trainer

GIVEN, FIRST, LAST = "content as given", "projected, before training", "projected, trained"
MOST_ITEMS = 2000  # whose partners are looked for; beyond that so many at random

Clouds = Mapping[str, np.ndarray]  # the (I, D) vectors of each input


@dataclass(frozen=True)
class Gap:
    """How two inputs of the same items lie to each other, in all dimensions.

    >>> text_ID, image_ID = np.array([[-2.0, 0.0], [2.0, 0.0]]), np.array([[-2.0, 8.0], [2.0, 8.0]])
    >>> found = Gap.of(text_ID, image_ID)
    >>> found.between_means, found.gap, found.matched
    (8.0, 4.0, 1.0)
    """

    between_means: float
    first_spread: float  # root mean square distance of rows to their mean row
    second_spread: float
    matched: float | None  # how often an item's two rows are nearer than rows of two items

    @classmethod
    def of(cls, first_ID: np.ndarray, second_ID: np.ndarray) -> Gap:
        first, second = (np.asarray(rows, dtype=np.float64) for rows in (first_ID, second_ID))
        own_first, own_second = first - first.mean(axis=0), second - second.mean(axis=0)
        return cls(
            float(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))),
            _spread(own_first),
            _spread(own_second),
            matched(own_first, own_second),
        )

    @property
    def gap(self) -> float | None:
        """The distance of the means over the two spreads' root mean square; None without any."""
        both = float(np.sqrt((self.first_spread**2 + self.second_spread**2) / 2))
        return self.between_means / both if both else None


def _spread(centred_ID: np.ndarray) -> float:
    return float(np.sqrt((centred_ID**2).sum(axis=1).mean()))


def matched(first_ID: np.ndarray, second_ID: np.ndarray) -> float | None:
    """How often an item's own row in the other input makes a smaller angle with its row than that
    of another item does, both ways; equal ones count half. None for less than two items.

    >>> matched(np.eye(3), np.eye(3)), matched(np.eye(3), np.ones((3, 3)))
    (1.0, 0.5)
    """
    if len(first_ID) < 2:
        return None
    if len(first_ID) > MOST_ITEMS:
        generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("matched"))
        item_M = np.sort(generator.choice(len(first_ID), MOST_ITEMS, replace=False))
        first_ID, second_ID = first_ID[item_M], second_ID[item_M]
    cosine_II = _unit(first_ID) @ _unit(second_ID).T
    own_I = np.diagonal(cosine_II)
    found = []
    for one_II in (cosine_II, cosine_II.T):
        below = (one_II < own_I[:, None] - 1e-12).sum(axis=1)
        above = (one_II > own_I[:, None] + 1e-12).sum(axis=1)
        others = len(own_I) - 1
        found.append((below + (others - below - above) / 2) / others)
    return float(np.mean(found))


def _unit(x_ID: np.ndarray) -> np.ndarray:
    norm_I1 = np.linalg.norm(x_ID, axis=1, keepdims=True)
    return np.asarray(x_ID / np.where(norm_I1 > 0, norm_I1, 1.0))


def gap(runs: Sequence[FinishedRun], *, user: str | None = None) -> Finding:
    """All inputs of the items in one plane, projected with the first values of the parameters and
    with the trained ones, and how far they lie apart in all dimensions. Where ids are personal,
    they are those of one user (by default one with a median history).

    >>> gap([])
    Traceback (most recent call last):
    tacit.errors.TacitError: gap looks into one run, not 0; give one.
    """
    if len(runs) != 1:
        raise TacitError(f"gap looks into one run, not {len(runs)}; give one.")
    (run,) = runs
    encoder = fused(run.experiment.method)
    if encoder is None:
        raise TacitError(
            f"{run.name} reads nothing of an item but its id, so there is no gap between inputs; "
            "give a run with content, for example --with fedmr."
        )
    code = user_code(run.prepared, user)
    item_I = _complete(run, encoder)
    stages = found_stages(run, encoder, code, item_I)
    gaps = {
        stage: {pair: Gap.of(*(clouds[one] for one in pair)) for pair in combinations(clouds, 2)}
        for stage, clouds in stages.items()
    }
    places = _places(stages)
    title = f"Inputs of {len(item_I):,} items, {run.name}, {run.place}"
    rows = [
        (
            *(stage, *pair, one.gap, one.matched),
            *(one.between_means, one.first_spread, one.second_spread),
        )
        for stage, several in gaps.items()
        for pair, one in several.items()
    ]
    columns = (
        *(Column(one, word) for one in ("stage", "input", "other input")),
        *(Column(one) for one in ("gap", "matched", "between means")),
        *(Column(one) for one in ("spread of input", "spread of other")),
    )
    items = run.prepared.dataset.interactions.items
    points = [
        (stage, name, items[int(item)], float(x), float(y))
        for stage, several in places.items()
        for name, place_I2 in several.items()
        for item, (x, y) in zip(item_I, place_I2, strict=True)
    ]
    where = (*(Column(one, word) for one in ("stage", "input", "item")), Column("x"), Column("y"))
    return Finding(
        "gap",
        (Table("gap", title, columns, tuple(rows)),),
        _figure(places, gaps, title),
        (
            "gap: the distance of two inputs' mean rows over the root mean square of their "
            "spreads, 0 where the means are one. matched: how often an item's two rows, "
            "each from its input's mean, point more alike than rows of two items; 0.5 is chance.",
            *_left_out(run, item_I),
        ),
        unprinted=(Table("gap-points", title, where, tuple(points)),),
    )


def _complete(run: FinishedRun, encoder: ItemEncoder) -> np.ndarray:
    """The items that have all content: what is missing is a mean, which would hide a gap."""
    train = run.prepared.split.train
    content = train.content
    here_I = np.ones(train.n_items, dtype=bool)
    for name in encoder.inputs:
        if name in content:
            here_I &= content[name].present_I
    return np.flatnonzero(here_I)


def _left_out(run: FinishedRun, item_I: np.ndarray) -> list[str]:
    missing = run.prepared.split.train.n_items - len(item_I)
    return [f"{whole_text(missing)} items that lack content are left out."] if missing else []


@torch.no_grad()
def found_stages(
    run: FinishedRun, encoder: ItemEncoder, user: int, item_I: np.ndarray
) -> dict[str, Clouds]:
    """Vectors by stage: content as it is given, where all of it is as wide, then all inputs at
    the common width, with the first values of the parameters and with those that the run kept."""
    contents = {
        name: run.algorithm.content[CONTENT + name].numpy()[item_I]
        for name in encoder.inputs
        if CONTENT + name in run.algorithm.content
    }
    stages: dict[str, Clouds] = {}
    if len(contents) > 1 and len({value_IF.shape[1] for value_IF in contents.values()}) == 1:
        stages[GIVEN] = contents
    here = replace(run.experiment, device="cpu")  # first values are the same on any device
    first = Trainer(here, run.prepared.split.train, 1).state
    for stage, state in ((FIRST, first), (LAST, run.state)):
        stages[stage] = _projected(run, encoder, state, user, item_I)
    return stages


def _projected(
    run: FinishedRun, encoder: ItemEncoder, state: State, user: int, item_I: np.ndarray
) -> Clouds:
    read, history = run.algorithm.method.sync.read, run.prepared.split.train.history(user)
    p = client_parameters(run.algorithm, state, user, history)
    found = encoder.projected(p, read(p))
    return {name: x_ID.numpy()[item_I] for name, x_ID in found.items()}


def _places(stages: Mapping[str, Clouds]) -> dict[str, Clouds]:
    """Content in a plane of its own; all that is projected in one plane, each stage in units of
    its own spread, so that rows that grew in training do not make the first ones a dot."""
    scaled = {stage: _in_spreads(clouds) for stage, clouds in stages.items()}
    places: dict[str, Clouds] = {}
    for group in ((GIVEN,), (FIRST, LAST)):
        here = [stage for stage in group if stage in scaled]
        rows = [x_ID for stage in here for x_ID in scaled[stage].values()]
        if rows:
            plane = Plane.of(np.concatenate(rows))
            for stage in here:
                places[stage] = {n: plane.place(x_ID) for n, x_ID in scaled[stage].items()}
    return places


def _in_spreads(clouds: Clouds) -> Clouds:
    every_ID = np.concatenate([np.asarray(x_ID, dtype=np.float64) for x_ID in clouds.values()])
    spread = _spread(every_ID - every_ID.mean(axis=0)) or 1.0
    return {name: np.asarray(x_ID, dtype=np.float64) / spread for name, x_ID in clouds.items()}


def _figure(
    places: Mapping[str, Clouds], gaps: Mapping[str, Mapping[tuple[str, str], Gap]], title: str
) -> Figure:
    across, up = PROJECTIONS["pca"].axes
    names = list(places[LAST])
    figure, panels = new_figure(len(places), width=4.6, height=4.6, columns=3)
    for panel, (stage, several) in zip(panels, places.items(), strict=True):
        for name, place_I2 in several.items():
            shape = names.index(name)
            panel.scatter(
                place_I2[:, 0],
                place_I2[:, 1],
                s=14,
                color=colour(shape),
                marker=marker(shape),
                alpha=0.45,
                linewidths=0,
                label=name,
                rasterized=True,  # thousands of points would make an SVG that nobody can open
            )
        for name, place_I2 in several.items():
            x, y = place_I2.mean(axis=0)
            panel.scatter(
                *([x], [y]),
                s=110,
                color=colour(names.index(name)),
                marker=marker(names.index(name)),
                edgecolors="#101010",
                linewidths=1.4,
                zorder=3,
            )
        outside = _limit(panel, list(several.values()))
        panel.set_title(stage + (f" ({outside} outside)" if outside else ""), fontsize=11)
        panel.xaxis.set_major_locator(MaxNLocator(nbins=6))
        said = [
            f"{' – '.join(pair)}: gap {_text(one.gap)}, matched {metric_text(one.matched)}"
            for pair, one in gaps[stage].items()
        ]
        panel.set_xlabel("\n".join([across, *said]), fontsize=9.5)
        panel.set_ylabel(up)
    legend_outside(figure, panels[-1])
    figure.suptitle(title, fontsize=12)
    own = " Content as given has a plane of its own." if GIVEN in places else ""
    caption(
        figure,
        "One plane for all that is projected, each panel in units of its spread and on a scale of "
        f"its own, few points outside; framed marks are means.{own} Gap and matched are of all "
        "dimensions: the distance of means in spreads, and how often an item's two rows point more "
        "alike than those of two items.",
    )
    return figure


def _limit(panel: Axes, places: Sequence[np.ndarray]) -> int:
    """Show the middle 98 % of every input along each axis, and some room around them, so that few
    rows far away do not make the others a dot; how many points are not shown."""
    ends = np.array([np.quantile(place_I2, (0.01, 0.99), axis=0) for place_I2 in places])
    low_2, high_2 = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    room_2 = np.where(high_2 > low_2, 0.15 * (high_2 - low_2), 1.0)
    low_2, high_2 = low_2 - room_2, high_2 + room_2
    panel.set_xlim(low_2[0], high_2[0])
    panel.set_ylim(low_2[1], high_2[1])
    every_N2 = np.concatenate(list(places))
    return int(((every_N2 < low_2) | (every_N2 > high_2)).any(axis=1).sum())


def _text(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"
