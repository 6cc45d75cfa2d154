"""An attacker that is linear: ridge regression from embeddings to content."""

from __future__ import annotations

import numpy as np

from tacit.attack.standard import Standard

PENALTIES = np.logspace(-3, 5, 17)


def ridge(
    known_KD: np.ndarray, content_KF: np.ndarray, unknown_ND: np.ndarray, seed: int
) -> np.ndarray:
    """The content (N, F) of unknown embeddings, linear in them; nothing is random.

    The penalty has the smallest error when each known item in turn is left out, which one
    decomposition gives exactly.

    >>> known_KD = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ridge(known_KD, 2 * known_KD, np.array([[10.0]]), seed=0).round(1).tolist()
    [[20.0]]
    """
    source, mean_F = Standard.of(known_KD), content_KF.mean(axis=0)
    # not scaled: a common penalty treats columns alike, and the error is in the content's own units
    y_KF = content_KF - mean_F
    left_KR, size_R, right_RD = np.linalg.svd(source.apply(known_KD), full_matrices=False)
    part_RF = left_KR.T @ y_KF
    kept = min(PENALTIES, key=lambda penalty: _left_out(y_KF, left_KR, size_R, part_RF, penalty))
    weight_DF = right_RD.T @ ((size_R / (size_R**2 + kept))[:, None] * part_RF)
    return np.asarray(source.apply(unknown_ND) @ weight_DF + mean_F)


def _left_out(
    y_KF: np.ndarray, left_KR: np.ndarray, size_R: np.ndarray, part_RF: np.ndarray, penalty: float
) -> float:
    """The mean squared error of known items, each guessed from all the others."""
    shrink_R = size_R**2 / (size_R**2 + penalty)
    residual_KF = y_KF - left_KR @ (shrink_R[:, None] * part_RF)
    # its own share in the guess of an item; 1 / K of it is the mean's
    share_K = (left_KR**2) @ shrink_R + 1 / len(y_KF)
    return float(np.mean((residual_KF / np.maximum(1 - share_K, 1e-9)[:, None]) ** 2))
