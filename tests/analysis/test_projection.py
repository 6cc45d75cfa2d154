"""Two dimensions that keep what there is."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.analysis.embeddings import MOST_ITEMS, Plane, pca, tsne
from tacit.errors import TacitError


def test_pca_keeps_distances_of_a_plane():
    angle = np.linspace(0, 6, 20)
    plane_I2 = np.stack([3 * np.cos(angle), np.sin(angle)], axis=1)
    rotation_25 = np.linalg.qr(np.arange(25.0).reshape(5, 5) + np.eye(5))[0][:2]
    place_I2 = pca(plane_I2 @ rotation_25 + 7.0)

    def distances(x: np.ndarray) -> np.ndarray:
        return np.linalg.norm(x[:, None] - x[None], axis=-1)

    assert distances(place_I2) == pytest.approx(distances(plane_I2), abs=1e-9)
    assert place_I2[:, 0].var() > place_I2[:, 1].var()


def test_pca_of_one_dimension():
    assert pca(np.array([[0.0], [2.0]])).tolist() == [[-1.0, 0.0], [1.0, 0.0]]


def test_a_plane_places_rows_that_it_was_not_fitted_on():
    # rows along the second axis, wider than along the first; the third never moves
    plane = Plane.of(np.array([[0.0, 3.0, 5.0], [0.0, -3.0, 5.0], [1.0, 0.0, 5.0], [-1.0, 0.0, 5]]))
    assert plane.place(np.array([[2.0, 7.0, 9.0]])).round(9).tolist() == [[7.0, 2.0]]
    assert Plane.of(np.array([[0.0], [2.0]])).place(np.array([[5.0]])).tolist() == [[4.0, 0.0]]


def test_tsne_keeps_clusters_apart_and_repeats():
    centre = np.repeat(20.0 * np.eye(3), 15, axis=0)
    x_ID = centre + np.sin(np.arange(45 * 3)).reshape(45, 3)
    place_I2 = tsne(x_ID, perplexity=8.0, steps=300)
    assert np.array_equal(place_I2, tsne(x_ID, perplexity=8.0, steps=300))
    means = np.stack([place_I2[k * 15 : (k + 1) * 15].mean(axis=0) for k in range(3)])
    nearest = np.linalg.norm(place_I2[:, None] - means[None], axis=-1).argmin(axis=1)
    assert nearest.tolist() == np.repeat(np.arange(3), 15).tolist()


def test_tsne_refuses_what_would_not_fit():
    with pytest.raises(TacitError, match="use --projection pca"):
        tsne(np.zeros((MOST_ITEMS + 1, 2)))
