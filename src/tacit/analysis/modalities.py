"""The items of one user by each single input, and as the user's router mixes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from tacit import streams
from tacit.analysis.embeddings import (
    PROJECTIONS,
    auc,
    draw_items,
    item_kinds,
    label_axes,
    user_code,
)
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun
from tacit.engines.explain import fused
from tacit.engines.scoring import client_parameters
from tacit.errors import TacitError, nearest
from tacit.experiment.amounts import metric_text, whole_text
from tacit.experiment.charts import caption, legend_outside, new_figure

MIXED = "mixed"
MOST_USERS = 200  # whose AUC is averaged; beyond that so many at random


def modalities(
    runs: Sequence[FinishedRun], *, user: str | None = None, projection: str = "pca"
) -> Finding:
    """Items of one user (by default one with a median history) by id, text, image, … after their
    projections, and by what the user's scorer reads; beside each, how near held-out items lie.

    >>> modalities([], projection="pcaa")
    Traceback (most recent call last):
    tacit.errors.TacitError: Unknown projection 'pcaa'; did you mean 'pca'? Known: pca, tsne.
    """
    if projection not in PROJECTIONS:
        raise TacitError(f"Unknown projection {projection!r}; {nearest(projection, PROJECTIONS)}")
    if len(runs) != 1:
        raise TacitError(f"modalities looks into one run, not {len(runs)}; give one.")
    (run,) = runs
    prepared = run.prepared
    code = user_code(prepared, user)
    kind_I = item_kinds(prepared, code)
    name, items = prepared.dataset.interactions.users[code], prepared.dataset.interactions.items
    found = spaces(run, code)
    own = {space: nearness(vector_ID, kind_I) for space, vector_ID in found.items()}
    everybody, count = _mean_nearness(run)
    place = PROJECTIONS[projection].place
    places = {space: place(vector_ID) for space, vector_ID in found.items()}

    title = f"Items of user {name} ({(kind_I == 'train').sum()} in train), {run.name}, {run.place}"
    columns = 2 if len(found) == 4 else 3
    figure, panels = new_figure(len(found), width=4.6, height=4.0, columns=columns)
    for panel, (space, place_I2) in zip(panels, places.items(), strict=True):
        draw_items(panel, place_I2, kind_I)
        said = f"user's AUC {metric_text(own[space])}, mean {metric_text(everybody[space])}"
        panel.set_title(f"{space}\n{said}", fontsize=11)
        label_axes(panel, projection)
    legend_outside(figure, panels[0])
    figure.suptitle(title, fontsize=12)
    caption(
        figure,
        "Inputs after their projections; mixed is what the user's scorer reads. AUC: how often a "
        "held-out item lies nearer (by angle, from the mean item) to the mean of the user's train "
        f"items than an item of no list; the mean is over {count} users.",
    )
    rows = [(space, own[space], everybody[space], count) for space in found]
    points = [
        (space, items[item], str(kind_I[item]), *map(float, place_I2[item]))
        for space, place_I2 in places.items()
        for item in range(len(items))
    ]
    table = (
        Column("space", word),
        Column("AUC held out, this user"),
        Column("AUC held out, mean"),
        Column("users", whole_text),
    )
    where = (*(Column(one, word) for one in ("space", "item", "kind")), Column("x"), Column("y"))
    return Finding(
        "modalities",
        (Table("modalities", title, table, tuple(rows)),),
        figure,
        (
            "AUC: how often a held-out item lies nearer to the mean of a user's train items than "
            "an item that is neither in train nor held out; 0.5 is chance. One user has few "
            "held-out items: look at the mean.",
        ),
        unprinted=(Table("modalities-points", title, where, tuple(points)),),
    )


@torch.no_grad()
def spaces(run: FinishedRun, user: int) -> dict[str, np.ndarray]:
    """The (I, D) vectors of each input after its projection, and of what the scorer reads."""
    encoder = fused(run.experiment.method)
    if encoder is None:
        raise TacitError(
            f"{run.name} reads nothing of an item but its id, so there are no modalities to map; "
            "give a run with content, or look at it with `tacit analyse embeddings`."
        )
    algorithm, read = run.algorithm, run.algorithm.method.sync.read
    p = client_parameters(algorithm, run.state, user, run.prepared.split.train.history(user))
    found = {name: x_ID.numpy() for name, x_ID in encoder.projected(p, read(p)).items()}
    return found | {MIXED: algorithm.encoded(p, read).numpy()}


def nearness(vector_ID: np.ndarray, kind_I: np.ndarray) -> float | None:
    """AUC of held-out items against others, by cosine to the mean of the train items; all vectors
    are taken from the mean item, whose direction all of them share.

    >>> vector_ID = np.array([[2.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-2.0, -0.1]])
    >>> nearness(vector_ID, np.array(["train", "held out", "others", "others"], object))
    1.0
    """
    x_ID = np.asarray(vector_ID, dtype=np.float64) - vector_ID.mean(axis=0)
    norm_I1 = np.linalg.norm(x_ID, axis=1, keepdims=True)
    x_ID = x_ID / np.where(norm_I1 > 0, norm_I1, 1.0)
    near_I = x_ID @ x_ID[kind_I == "train"].sum(axis=0)
    return auc(near_I[kind_I == "held out"], near_I[kind_I == "others"])


def _mean_nearness(run: FinishedRun) -> tuple[dict[str, float | None], int]:
    user_M = np.flatnonzero(run.prepared.split.train.positives.size_U)
    if len(user_M) > MOST_USERS:
        generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("nearness"))
        user_M = np.sort(generator.choice(user_M, MOST_USERS, replace=False))
    found: dict[str, list[float]] = {}
    for user in user_M.tolist():
        kind_I = item_kinds(run.prepared, user)
        for space, vector_ID in spaces(run, user).items():
            value = nearness(vector_ID, kind_I)
            found.setdefault(space, []).extend([] if value is None else [value])
    means = {
        space: float(np.mean(several)) if several else None for space, several in found.items()
    }
    return means, len(user_M)
