"""What the top lists do to the catalogue: how much of it they show, and how popular that is."""

from __future__ import annotations

import numpy as np


def item_coverage(top_EK: np.ndarray, n_items: int) -> float:
    """The share of the catalogue that is recommended to anybody; -1 in a list is nothing.

    For a smaller cut-off give the first columns, `top_EK[:, :10]`.

    >>> item_coverage(np.array([[0, 1], [1, -1]]), n_items=4)
    0.5
    """
    shown_I = np.zeros(n_items, dtype=bool)
    shown_I[top_EK[top_EK >= 0]] = True
    return float(shown_I.sum() / n_items)


def mean_popularity(top_EK: np.ndarray, popularity_I: np.ndarray) -> float:
    """The mean train count of recommended items, over all places of all lists.

    >>> mean_popularity(np.array([[0, 1], [1, -1]]), np.array([7, 1, 5]))
    3.0
    """
    shown = top_EK[top_EK >= 0]
    return float(popularity_I[shown].mean()) if len(shown) else 0.0
