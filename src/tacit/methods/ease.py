"""EASE (Steck, 2019): the closed-form item-to-item model; a central bar, not a federated method.

B = argmin ‖X − XB‖² + λ‖B‖² with a zero diagonal: with P = (XᵀX + λI)⁻¹, B_ij = −P_ij / P_jj for
i ≠ j. λ is chosen on validation among `ridges`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from tacit.data.views import TrainView
from tacit.memory import require_memory
from tacit.methods.entry import METHODS, Entry


def train_matrix(train: TrainView) -> scipy.sparse.csr_array:
    """The binary user-by-item matrix of train interactions."""
    positives = train.positives
    shape = (train.n_users, train.n_items)
    ones = np.ones(len(positives.item_N))
    matrix = scipy.sparse.csr_array((ones, positives.item_N, positives.start_U1), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def history_rows(histories: list[np.ndarray], n_items: int) -> np.ndarray:
    """(B, I) rows with a one for each item of a history."""
    row_BI = np.zeros((len(histories), n_items))
    for b, history in enumerate(histories):
        row_BI[b, history] = 1.0
    return row_BI


@dataclass(frozen=True, eq=False)
class ItemToItem:
    weight_II: np.ndarray

    def score(self, histories: list[np.ndarray], key_B: np.ndarray) -> np.ndarray:
        return history_rows(histories, len(self.weight_II)) @ self.weight_II


@dataclass(frozen=True)
class Ease:
    """EASE with a grid of ridge penalties λ.

    >>> Ease(ridges=(10.0, 100.0)).settings
    2
    """

    ridges: tuple[float, ...] = (5.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)

    @property
    def settings(self) -> int:
        return len(self.ridges)

    def fit(self, train: TrainView, setting: int, seed: int) -> ItemToItem:
        require_memory(
            3 * train.n_items**2 * 8,
            what=f"EASE's item-to-item tables for {train.n_items} items",
            hint="use pure_svd, whose tables are thin",
        )
        matrix = train_matrix(train)
        gram_II = (matrix.T @ matrix).toarray()
        gram_II[np.diag_indices_from(gram_II)] += self.ridges[setting]
        inverse_II = np.linalg.inv(gram_II)
        weight_II = -inverse_II / np.diag(inverse_II)
        np.fill_diagonal(weight_II, 0.0)
        return ItemToItem(weight_II)


METHODS["ease"] = Entry(
    build=Ease, summary="central bar: closed-form item-to-item model", rounds=len(Ease().ridges)
)
