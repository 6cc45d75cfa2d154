"""The item vectors that one user's scorer sees, in two dimensions, beside what they separate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from tacit import streams
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.analysis.groups import activity, ordered
from tacit.analysis.inference import item_vectors
from tacit.errors import TacitError, nearest
from tacit.experiment.amounts import metric_text, whole_text
from tacit.experiment.charts import GREY, PALETTE, caption, legend_outside, new_figure
from tacit.experiment.prepare import Prepared

# Vectors in two dimensions: principal components, or exact t-SNE.

MOST_ITEMS = 5000  # of exact t-SNE, which keeps all pairs


@dataclass(frozen=True, eq=False)
class Plane:
    """Two directions through a mean row: it also places rows that it was not fitted on.

    >>> plane = Plane.of(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    >>> plane.place(np.array([[9.0, 12.0]])).round(6).tolist()
    [[10.0, 0.0]]
    """

    mean_D: np.ndarray
    direction_2D: np.ndarray

    @classmethod
    def of(cls, x_ID: np.ndarray) -> Plane:
        """The first two principal components; the largest weight of each is positive."""
        mean_D = np.asarray(np.mean(x_ID, axis=0, dtype=np.float64))
        direction_2D = np.linalg.svd(_centred(x_ID, mean_D), full_matrices=False)[2][:2]
        largest = np.abs(direction_2D).argmax(axis=1)
        sign_2 = np.where(direction_2D[np.arange(len(direction_2D)), largest] < 0, -1.0, 1.0)
        return cls(mean_D, direction_2D * sign_2[:, None])

    def place(self, x_ID: np.ndarray) -> np.ndarray:
        place_I2 = _centred(x_ID, self.mean_D) @ self.direction_2D.T
        return np.where(np.abs(place_I2) < 1e-12, 0.0, place_I2)


def _centred(x_ID: np.ndarray, mean_D: np.ndarray) -> np.ndarray:
    centred = np.asarray(x_ID, dtype=np.float64) - mean_D
    return centred if centred.shape[1] > 1 else np.pad(centred, ((0, 0), (0, 1)))


def pca(x_ID: np.ndarray) -> np.ndarray:
    """The rows in the plane of their own first two principal components.

    >>> pca(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])).round(6).tolist()
    [[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]]
    """
    return Plane.of(x_ID).place(x_ID)


def tsne(x_ID: np.ndarray, perplexity: float = 30.0, steps: int = 500) -> np.ndarray:
    """Exact t-SNE from the principal components, so that nothing in it is random.

    >>> x_ID = np.repeat([[0.0, 0.0], [50.0, 0.0]], 4, axis=0) + np.eye(8)[:, :2]
    >>> place_I2 = tsne(x_ID, perplexity=2.0, steps=200)
    >>> near = np.linalg.norm(place_I2[1] - place_I2[2])
    >>> bool(near < np.linalg.norm(place_I2[1] - place_I2[5]))
    True
    """
    count = len(x_ID)
    if count > MOST_ITEMS:
        raise TacitError(
            f"t-SNE here is exact and takes at most {MOST_ITEMS} items, not {count}; use "
            "--projection pca."
        )
    near_II = 12.0 * _neighbourhoods(x_ID, min(perplexity, (count - 1) / 3))  # exaggerated at first
    place_I2 = pca(x_ID)
    place_I2 *= 1e-4 / max(float(place_I2[:, 0].std()), 1e-12)
    speed, gain, rate = np.zeros_like(place_I2), np.ones_like(place_I2), max(count / 48.0, 5.0)
    for step in range(steps):
        if step == min(100, steps // 2):
            near_II /= 12.0
        kernel_II = 1.0 / (1.0 + _squared_distances(place_I2))
        np.fill_diagonal(kernel_II, 0.0)
        pull_II = (near_II - kernel_II / kernel_II.sum()) * kernel_II
        slope = 4.0 * (pull_II.sum(axis=1)[:, None] * place_I2 - pull_II @ place_I2)
        gain = np.maximum(np.where(slope * speed < 0, gain + 0.2, gain * 0.8), 0.01)
        speed = (0.5 if step < 100 else 0.8) * speed - rate * gain * slope
        place_I2 = place_I2 + speed
    return place_I2 - place_I2.mean(axis=0)


def _squared_distances(x_ID: np.ndarray) -> np.ndarray:
    norm_I = (x_ID**2).sum(axis=1)
    return np.maximum(norm_I[:, None] + norm_I - 2.0 * x_ID @ x_ID.T, 0.0)


def _neighbourhoods(x_ID: np.ndarray, perplexity: float) -> np.ndarray:
    """Symmetric chances of being neighbours; each row's width is found by halving."""
    distance_II = _squared_distances(np.asarray(x_ID, dtype=np.float64))
    np.fill_diagonal(distance_II, np.inf)
    distance_II -= distance_II.min(axis=1, keepdims=True)
    low_I, high_I = np.full(len(x_ID), -40.0), np.full(len(x_ID), 40.0)  # log of the precision
    for _ in range(60):
        middle_I = (low_I + high_I) / 2
        chance_II = np.exp(-np.exp(middle_I)[:, None] * distance_II)
        chance_II /= chance_II.sum(axis=1, keepdims=True)
        entropy_I = -(chance_II * np.log(np.maximum(chance_II, 1e-300))).sum(axis=1)
        wide_I = entropy_I > np.log(max(perplexity, 1.0))
        low_I, high_I = np.where(wide_I, middle_I, low_I), np.where(wide_I, high_I, middle_I)
    return (chance_II + chance_II.T) / (2 * len(x_ID))


@dataclass(frozen=True)
class Projection:
    """A way into two dimensions, and what its axes are called."""

    place: Callable[[np.ndarray], np.ndarray]
    axes: tuple[str, str]


PROJECTIONS: dict[str, Projection] = {
    "pca": Projection(pca, ("first principal component", "second principal component")),
    "tsne": Projection(tsne, ("t-SNE, first", "t-SNE, second")),
}


# Items in two dimensions, coloured by what they are to one user; and which user.

KINDS = {  # the colour, marker and size of each kind of item; later ones lie on top
    "others": (GREY, "o", 12),
    "train": (PALETTE[0], "o", 30),
    "held out": (PALETTE[1], "D", 60),
}


def draw_items(panel: Axes, place_I2: np.ndarray, kind_I: np.ndarray) -> None:
    """A point for each item."""
    for kind, (shade, shape, size) in KINDS.items():
        own = place_I2[kind_I == kind]
        panel.scatter(
            own[:, 0],
            own[:, 1],
            s=size,
            marker=shape,
            color=shade,
            alpha=0.5 if kind == "others" else 0.95,
            linewidths=0 if kind == "others" else 0.6,
            edgecolors="none" if kind == "others" else "#202020",
            label=kind,
        )


def label_axes(panel: Axes, projection: str) -> None:
    """What the two axes of a projection are."""
    across, up = PROJECTIONS[projection].axes
    panel.set_xlabel(across)
    panel.set_ylabel(up)


def user_code(prepared: Prepared, user: str | None) -> int:
    """The code of a user id; without one, of a user with a median history."""
    users = prepared.dataset.interactions.users
    if user is None:
        order = ordered(activity(prepared.split.train), users)
        return int(order[(len(order) - 1) // 2])
    if user not in users:
        raise TacitError(f"No user {user!r} in the data; ids look like {', '.join(users[:3])}.")
    return users.index(user)


# The item vectors that one user's scorer sees, in two dimensions, beside what they separate.

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
        history = prepared.split.train.history(code)
        vector_ID = item_vectors(run.algorithm, run.state, code, history)
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
        label_axes(panel, projection)
    legend_outside(figure, panels[0])
    figure.suptitle(title, fontsize=12)
    caption(
        figure,
        "Train items that stand apart show fitting only: every one of them was trained to. Whether "
        "anything was learnt shows in the held-out items.",
    )
    return figure
