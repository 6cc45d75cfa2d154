"""The item vectors that one user's scorer sees, in two dimensions, beside what they separate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from tacit import streams
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.item_map import draw_items, user_code
from tacit.analysis.item_tables import item_vectors
from tacit.analysis.projection import PROJECTIONS
from tacit.errors import TacitError, nearest
from tacit.experiment.amounts import metric_text, whole_text
from tacit.experiment.figures import caption, legend_outside, new_figure
from tacit.experiment.prepare import Prepared

MOST_USERS = 1000  # whose AUC is averaged; beyond that a random thousand of them


def embeddings(
    runs: Sequence[FinishedRun], *, user: str | None = None, projection: str = "pca"
) -> Finding:
    """Items of one user (by default one with a median history) by what they are to that user, and
    how well the user's scores tell train items and held-out items from all others.

    >>> embeddings([], projection="pcaa")
    Traceback (most recent call last):
    tacit.errors.TacitError: Unknown projection 'pcaa'; did you mean 'pca'? Known: pca, tsne.
    """
    if projection not in PROJECTIONS:
        raise TacitError(f"Unknown projection {projection!r}; {nearest(projection, PROJECTIONS)}")
    require_alike(runs)
    prepared = runs[0].prepared
    code = user_code(prepared, user)
    kind_I = item_kinds(prepared, code)
    name, items = prepared.dataset.interactions.users[code], prepared.dataset.interactions.items
    places, aucs, rows = [], [], []
    for run in runs:
        past_H = prepared.split.train.positives[code]
        vector_ID = item_vectors(run.algorithm, run.state, code, past_H)
        place_I2 = PROJECTIONS[projection].place(vector_ID)
        own = user_auc(run.scores()(np.array([code]))[0], kind_I)
        everybody = _mean_auc(run, prepared)
        rows += [(run.name, f"user {name}", *own, 1)]
        rows += [(run.name, "mean over users", *everybody[:2], everybody[2])]
        places.append(place_I2)
        aucs.append(own)
    columns = (
        Column("run", word),
        Column("who", word),
        Column("AUC train"),
        Column("AUC held out"),
        Column("users", whole_text),
    )
    points = [
        (run.name, items[item], str(kind_I[item]), *map(float, place_I2[item]))
        for run, place_I2 in zip(runs, places, strict=True)
        for item in range(len(items))
    ]
    where = (*(Column(one, word) for one in ("run", "item", "kind")), Column("x"), Column("y"))
    title = f"Items of user {name} ({(kind_I == 'train').sum()} in train), {runs[0].place}"
    return Finding(
        "embeddings",
        (Table("embeddings", title, columns, tuple(rows)),),
        _figure(runs, places, aucs, kind_I, title, projection),
        (
            "AUC: how often an item of the kind scores above an item that is neither in train nor "
            "held out. That of train items shows fitting only; that of held-out items shows what "
            "was learnt.",
        ),
        unprinted=(Table("embeddings-points", title, where, tuple(points)),),
    )


def item_kinds(prepared: Prepared, user: int) -> np.ndarray:
    """What each item is to a user: "train", "held out" (validation or test) or "others"."""
    split = prepared.split
    kind_I = np.full(split.train.n_items, "others", dtype=object)
    for part in (split.valid, split.test):
        for place in np.flatnonzero(part.user_E == user):
            kind_I[part.relevant[int(place)]] = "held out"
    kind_I[split.train.positives[user]] = "train"
    return kind_I


def auc(positive_P: np.ndarray, negative_N: np.ndarray) -> float | None:
    """How often a positive stands above a negative; equal scores count half.

    >>> auc(np.array([3.0, 1.0]), np.array([2.0, 1.0]))  # 2 pairs won, 1 tied, 1 lost
    0.625
    """
    p, n = len(positive_P), len(negative_N)
    if not p or not n:
        return None
    rank_P = rankdata(np.concatenate([positive_P, negative_N]))[:p]
    return float((rank_P.sum() - p * (p + 1) / 2) / (p * n))


def user_auc(score_I: np.ndarray, kind_I: np.ndarray) -> tuple[float | None, float | None]:
    """AUC of train items and of held-out items against all others.

    >>> user_auc(np.array([3.0, 2.0, 1.0]), np.array(["train", "others", "held out"], object))
    (1.0, 0.0)
    """
    others = score_I[kind_I == "others"]
    return auc(score_I[kind_I == "train"], others), auc(score_I[kind_I == "held out"], others)


def _mean_auc(run: FinishedRun, prepared: Prepared) -> tuple[float | None, float | None, int]:
    user_M = np.arange(prepared.split.train.n_users)
    if len(user_M) > MOST_USERS:
        generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("auc"))
        user_M = np.sort(generator.choice(user_M, MOST_USERS, replace=False))
    scores = run.scores()
    found = [
        user_auc(scores(user_M[m : m + 1])[0], item_kinds(prepared, int(user_M[m])))
        for m in range(len(user_M))
    ]
    known = [[one for one in column if one is not None] for column in zip(*found, strict=True)]
    train, held_out = (float(np.mean(one)) if one else None for one in known)
    return train, held_out, len(user_M)


def _figure(
    runs: Sequence[FinishedRun],
    places: Sequence[np.ndarray],
    aucs: Sequence[tuple[float | None, float | None]],
    kind_I: np.ndarray,
    title: str,
    projection: str,
) -> Figure:
    width = 6.0 if len(runs) == 1 else 4.4
    figure, panels = new_figure(
        len(runs), width=width, height=4.0, columns=2 if len(runs) == 4 else 3
    )
    for panel, run, place_I2, (train, held_out) in zip(panels, runs, places, aucs, strict=True):
        draw_items(panel, place_I2, kind_I)
        said = [metric_text(one) for one in (train, held_out)]
        panel.set_title(f"{run.name}\nAUC train {said[0]}, held out {said[1]}", fontsize=11)
        across, up = PROJECTIONS[projection].axes
        panel.set_xlabel(across)
        panel.set_ylabel(up)
    legend_outside(figure, panels[0])
    figure.suptitle(title, fontsize=12)
    caption(
        figure,
        "Train items that stand apart show fitting only: every one of them was trained to. Whether "
        "anything was learnt shows in the held-out items.",
    )
    return figure
