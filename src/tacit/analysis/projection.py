"""Vectors in two dimensions: principal components, or exact t-SNE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.errors import TacitError

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
