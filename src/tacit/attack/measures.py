"""How near a reconstruction of content is: five numbers, and a matrix to look at.

Shape suffixes: N items, F width of the content, V items that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROWS_AT_ONCE = 1024  # of a matrix over all pairs, which may not fit into memory


@dataclass(frozen=True)
class Measures:
    """Small errors and differences, large cosine and Pearson are leakage.

    >>> Measures(mse=0.5, mae=0.4, cosine=0.7, pearson=0.6, structure=0.1).cosine
    0.7
    """

    mse: float
    mae: float
    cosine: float
    pearson: float
    structure: float


def measure(truth_NF: np.ndarray, guess_NF: np.ndarray) -> Measures:
    """All five. Cosine and Pearson are those of an item's two rows, averaged over items, and 0
    where they are not defined.

    >>> measure(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])).cosine
    0.5
    """
    error_NF = guess_NF - truth_NF
    return Measures(
        mse=float(np.mean(error_NF**2)),
        mae=float(np.mean(np.abs(error_NF))),
        cosine=_mean_cosine(truth_NF, guess_NF),
        pearson=_mean_cosine(_around_mean(truth_NF), _around_mean(guess_NF)),
        structure=structure(truth_NF, guess_NF),
    )


def structure(truth_NF: np.ndarray, guess_NF: np.ndarray) -> float:
    """The mean of |S' - S| over all pairs of two items, where S holds the cosines between items of
    the truth, and S' those of the guess.

    >>> structure(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    1.0
    """
    truth_NG, guess_NG = _directions(truth_NF), _directions(guess_NF)
    count, total = len(truth_NG), 0.0
    for begin in range(0, count, ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        difference_BN = guess_NG[part] @ guess_NG.T - truth_NG[part] @ truth_NG.T
        own_B = np.arange(len(difference_BN))
        difference_BN[own_B, begin + own_B] = 0.0  # an item with itself is no pair
        total += float(np.abs(difference_BN).sum())
    return total / (count * (count - 1))


def differences(truth_NF: np.ndarray, guess_NF: np.ndarray, item_V: np.ndarray) -> np.ndarray:
    """S' - S of some items, (V, V).

    >>> truth_NF, guess_NF = np.eye(3), np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0, 0, 1]])
    >>> differences(truth_NF, guess_NF, np.array([0, 1])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    truth_VG, guess_VG = _directions(truth_NF[item_V]), _directions(guess_NF[item_V])
    return np.asarray(guess_VG @ guess_VG.T - truth_VG @ truth_VG.T)


def leakage(found: Measures, floor: Measures, shuffled: Measures) -> Measures:
    """Each measure from 0, as near as without embeddings, to 1, all is known; below 0 is worse.

    The floor's guess is one for all items, so any other one comes nearer in structure, a random one
    too: there the zero is what the same attacker gets from embeddings that it mixed up.

    >>> floor, shuffled = Measures(2.0, 1.0, 0.0, 0.0, 1.0), Measures(2.1, 1.1, 0.0, 0.0, 0.5)
    >>> leakage(Measures(0.5, 0.5, 0.7, 0.6, 0.25), floor, shuffled)
    Measures(mse=0.75, mae=0.5, cosine=0.7, pearson=0.6, structure=0.5)
    """
    return Measures(
        mse=_gain(found.mse, floor.mse),
        mae=_gain(found.mae, floor.mae),
        cosine=found.cosine,
        pearson=found.pearson,
        structure=_gain(found.structure, shuffled.structure),
    )


def _gain(value: float, reference: float) -> float:
    return 1 - value / reference if reference > 0 else 0.0


def _directions(value_NF: np.ndarray) -> np.ndarray:
    """Rows of length one, (N, F + 1). The last column holds the direction of rows that have none:
    they are alike among themselves, as whoever says the same of all items calls them alike, and
    like nothing else."""
    size_N = np.linalg.norm(value_NF, axis=1)
    none_N = size_N == 0
    unit_NF = value_NF / np.where(none_N, 1.0, size_N)[:, None]
    return np.concatenate([unit_NF, none_N[:, None].astype(unit_NF.dtype)], axis=1)


def _mean_cosine(one_NF: np.ndarray, other_NF: np.ndarray) -> float:
    size_N = np.linalg.norm(one_NF, axis=1) * np.linalg.norm(other_NF, axis=1)
    product_N = np.einsum("nf,nf->n", one_NF, other_NF)
    return float(np.mean(np.divide(product_N, size_N, out=np.zeros(len(size_N)), where=size_N > 0)))


def _around_mean(value_NF: np.ndarray) -> np.ndarray:
    """Every row less its mean; a constant row is zero, whatever rounding leaves of it."""
    around_NF = value_NF - value_NF.mean(axis=1, keepdims=True)
    constant_N = np.abs(around_NF).max(axis=1) <= 1e-12 * np.abs(value_NF).max(axis=1)
    around_NF[constant_N] = 0.0
    return around_NF
