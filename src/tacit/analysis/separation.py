"""Do learnt weights know who chooses by what? Asked of a planted world, which knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import streams
from tacit.analysis.embeddings import auc

PREFERENCE = "modality_preference_U"  # in the truth of a planted world: 0 by image, 1 by text
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
