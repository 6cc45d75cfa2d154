"""Attackers: from some known (embedding, content) pairs to the content of other embeddings.

Shape suffixes: K known items, N unknown ones, D width of an embedding, F width of the content.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.attack.perceptron import perceptron
from tacit.attack.ridge import ridge

# (known embedding_KD, known content_KF, unknown embedding_ND, seed) -> content_NF
Attacker = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


def mean(
    known_KD: np.ndarray, content_KF: np.ndarray, unknown_ND: np.ndarray, seed: int
) -> np.ndarray:
    """The mean content of the known items for every other one: what needs no embedding at all.

    >>> mean(np.zeros((2, 1)), np.array([[1.0], [3.0]]), np.zeros((3, 1)), seed=0).tolist()
    [[2.0], [2.0], [2.0]]
    """
    return np.tile(content_KF.mean(axis=0), (len(unknown_ND), 1))


FLOOR = "mean"
# To add one, write its file and name it here.
ATTACKERS: dict[str, Attacker] = {FLOOR: mean, "ridge": ridge, "perceptron": perceptron}
