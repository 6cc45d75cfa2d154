"""What linear item-to-item models share: rows, scores, weights, and how much rows, columns and
content count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tacit.core.algorithm import ClientData
from tacit.data.dataset import Modalities
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.parts.cold.features import Features


def train_matrix(train: TrainView) -> scipy.sparse.csr_array:
    """The binary user-by-item matrix of train interactions."""
    positives = train.positives
    shape = (train.n_users, train.n_items)
    ones = np.ones(len(positives.item_N))
    # copies, since what follows sorts the items of each row where they lie
    lists = (positives.item_N.copy(), positives.start_U1.copy())
    matrix = scipy.sparse.csr_array((ones, *lists), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def history_rows(histories: Sequence[History], n_items: int) -> np.ndarray:
    """(B, I) rows with the weight of each item of a history: one, where nobody weighs them."""
    row_BI = np.zeros((len(histories), n_items))
    for b, history in enumerate(histories):
        row_BI[b, history.item_H] = history.weights
    return row_BI


def require_grid(name: str, values: tuple[float, ...], most: float | None = None) -> None:
    """Refuse a grid that is empty, or has a value that is not above 0 and at most `most`.

    >>> require_grid("ridges", (1.0, 10.0))
    """
    if not values or min(values) <= 0 or (most is not None and max(values) > most):
        upper = "" if most is None else f" and at most {most:g}"
        raise TacitError(f"{name} are {values}; give at least one, all above 0{upper}.")


@dataclass(frozen=True, eq=False)
class ItemToItem:
    weight_II: np.ndarray

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        return history_rows(histories, len(self.weight_II)) @ self.weight_II

    def contributions(self, history: History) -> tuple[np.ndarray, np.ndarray]:
        row_I = history_rows([history], len(self.weight_II))[0]
        item_K = np.unique(history.item_H)
        return item_K, row_I[item_K, None] * self.weight_II[item_K]


def train_row(data: ClientData, n_items: int) -> Tensor:
    """x: one for each item of the history, or its weight; zero elsewhere."""
    return data.real_H.new_zeros(n_items).index_add(0, data.history_H, data.real_H)


# How much long histories and often-taken items count (ours).
#
# A row x of the train matrix is divided by a power of its length, so that people with long
# histories do not decide alone: x / n^`row_power`, with n = |x|^2, which is the length where no
# item stands twice. A device knows its own length, and nobody else learns it.
#
# `dropout` is the penalty of EDLAE (Steck, 2020): p/(1-p) times the diagonal of the Gram matrix, on
# top of the ridge. Columns divided by the roots of their counts before EASE is solved, and scores
# multiplied back, come to the same: a ridge that grows with the count. So one of the two is enough.
#
# `column_power` divides the scores of an item by a power of its count, so that what is often taken
# does not lead because it is often taken.
#
# Counts are the diagonal of the Gram matrix, each person weighed as in the rest of it. So they come
# from the sum that is there already, and cost no release of their own.


@dataclass(frozen=True)
class Scaling:
    """The three numbers together, checked.

    >>> Scaling(row_power=0.5).of_row(torch.tensor([2.0, 2.0]), torch.tensor(4.0)).tolist()
    [0.5, 0.5]
    """

    row_power: float = 0.0
    dropout: float = 0.0
    column_power: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.row_power <= 1:
            raise TacitError(f"row_power is {self.row_power}; it must be from 0 to 1.")
        if not 0 <= self.dropout < 1:
            raise TacitError(f"dropout is {self.dropout}; it must be from 0 to below 1.")
        if not -1 <= self.column_power <= 1:
            raise TacitError(f"column_power is {self.column_power}; it must be from -1 to 1.")

    def of_row(self, value: Tensor, square: Tensor) -> Tensor:
        """One factor of a row's product with itself, x x' / n^(2 row_power), for a row of which
        `square` is |x|^2; zero for an empty history."""
        if not self.row_power:
            return value
        shorter = value / square.clamp(min=1.0) ** (2 * self.row_power)
        return torch.where(square > 0, shorter, torch.zeros_like(value))

    @property
    def bounds(self) -> bool:
        """Whether x x' / n^(2 row_power) has at most Frobenius norm 1: that is n^(1 - 2 row_power).

        >>> [Scaling(row_power=power).bounds for power in (0.25, 0.5, 1.0)]
        [False, True, True]
        """
        return self.row_power >= 0.5

    def penalty(self, count_I: Tensor, ridge: float) -> Tensor:
        """What is added to the diagonal of the Gram matrix, whose own diagonal is `count_I`."""
        return self.dropout / (1 - self.dropout) * count_I + ridge

    def of_columns(self, weight_II: Tensor, count_I: Tensor) -> Tensor:
        """Weights whose columns are divided by counts; an item that nobody has stays as it is."""
        if not self.column_power:
            return weight_II
        return weight_II * known(count_I) ** -self.column_power


def known(count_I: Tensor) -> Tensor:
    """Counts, with one in the place of none.

    >>> known(torch.tensor([0.0, 0.5, 3.0])).tolist()
    [1.0, 0.5, 3.0]
    """
    return torch.where(count_I > 0, count_I, torch.ones_like(count_I))


def weights_of(inverse_II: Tensor, penalty_I: Tensor, diagonal: float) -> Tensor:
    """B from C = (G + Lambda)^-1: column j is that of the identity minus m_j times that of C.

    With a diagonal of at most 0, m_j is 1 / C_jj, which is EASE. With more it is Lambda_jj where
    that keeps the diagonal at or below `diagonal`, and (1 - diagonal) / C_jj elsewhere (RLAE, of
    Moon, Kim and Lee, SIGIR 2023).

    >>> inverse_II = torch.tensor([[0.4, -0.2], [-0.2, 0.6]], dtype=torch.float64)
    >>> weights_of(inverse_II, torch.ones(2), 0.0).round(decimals=3).tolist()
    [[0.0, 0.333], [0.5, 0.0]]
    >>> weights_of(inverse_II, torch.ones(2), 0.5).round(decimals=3).tolist()
    [[0.5, 0.2], [0.25, 0.4]]
    """
    own_I = inverse_II.diagonal()
    if not diagonal:
        return (-inverse_II / own_I).fill_diagonal_(0.0)
    is_free_I = 1 - penalty_I * own_I <= diagonal
    column_I = torch.where(is_free_I, penalty_I, (1 - diagonal) / own_I)
    return torch.eye(len(inverse_II)).to(inverse_II) - inverse_II * column_I


# Content as a prior (ours): features of items are people more, whose tastes everybody may see.
#
# To the Gram matrix is added `people` f f', where f has a row of features per item, centred and of
# mean square length 1. That is a ridge on |f - fB|^2: items of like content get like weights, and
# the fewer people have an item, the more its content decides. The server does it alone.


def content_gram(features: Features, content: Modalities, count_I: Tensor) -> Tensor:
    """f f', over all items of a catalogue; `count_I` is above zero where somebody has an item.

    >>> from tacit.data.dataset import FeatureTable
    >>> text = FeatureTable(np.array([[0.0, 2.0], [2.0, 0.0], [4.0, -2.0]]), np.ones(3, bool))
    >>> known_I = torch.tensor([1.0, 1.0, 0.0])
    >>> content_gram(Features(reduce=False), Modalities({"text": text}), known_I).tolist()
    [[1.0, -1.0, -3.0], [-1.0, 1.0, 3.0], [-3.0, 3.0, 9.0]]
    """
    row_IF = torch.from_numpy(features.rows(content, (count_I > 0).numpy(), 1)).to(count_I)
    return row_IF @ row_IF.T / max(row_IF.shape[1], 1)
