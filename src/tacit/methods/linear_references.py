"""Linear item-to-item models: EDLAE and SLIM as central baselines, and SLIM from one sum.

The central ones see all histories in one place; all try a grid, of which validation picks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy.linalg
import scipy.sparse
import torch

from tacit.compiled import compiled
from tacit.core.central import CentralMethod
from tacit.core.recency import Recency
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.closed_forms import GRAM, WEIGHT, PairSums
from tacit.methods.entry import METHODS, Entry
from tacit.methods.item_to_item import ItemToItem, Scaling, require_grid, train_matrix
from tacit.privacy.guarantee import PrivacyRequest
from tacit.privacy.shrinkage import symmetric

# EDLAE (Steck, "Autoencoders that don't overfit towards the Identity", NeurIPS 2020), full rank.
#
# A linear autoencoder whose input loses a share p of its items, and whose loss looks at the lost
# ones alone, is in expectation EASE with a penalty that grows with how often an item is there:
#
#     min |X - XB|^2 + |Lambda^(1/2) B|^2 with a zero diagonal
#     Lambda = p/(1-p) diag(X'X) + ridge I
#     C = (X'X + Lambda)^-1,  B_ij = -C_ij / C_jj for i != j
#
# p = 0 is EASE. A diagonal of at most xi in the place of zero is RDLAE's (Moon, Kim and Lee, "It's
# Enough: Relaxing Diagonal Constraints in Linear Autoencoders for Recommendation", SIGIR 2023):
# column j is then -C_ij m_j with m_j = Lambda_jj where that keeps the diagonal at or below xi, and
# m_j = (1 - xi) / C_jj elsewhere. xi = 0 is EDLAE, xi = 1 a denoising autoencoder without a
# constraint. The grids are ours.


@register("edlae")
@dataclass(frozen=True)
class Edlae(CentralMethod):
    """EDLAE with a grid: every ridge with every dropout and every largest diagonal, the last of
    them changing fastest.

    >>> Edlae(ridges=(10.0, 100.0), dropouts=(0.2, 0.5)).settings
    4
    """

    ridges: tuple[float, ...] = (20.0, 100.0, 500.0)
    dropouts: tuple[float, ...] = (0.2, 0.33, 0.5, 0.7)
    diagonals: tuple[float, ...] = (0.0,)
    recency: Recency | None = None

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        if not self.dropouts or min(self.dropouts) < 0 or max(self.dropouts) >= 1:
            raise TacitError(
                f"dropouts are {self.dropouts}; give at least one, all from 0 to below 1."
            )
        if not self.diagonals or min(self.diagonals) < 0 or max(self.diagonals) > 1:
            raise TacitError(f"diagonals are {self.diagonals}; give at least one, all from 0 to 1.")

    @property
    def grid(self) -> list[tuple[float, float, float]]:
        """(ridge, dropout, largest diagonal) of each setting."""
        return list(product(self.ridges, self.dropouts, self.diagonals))

    @property
    def settings(self) -> int:
        return len(self.grid)

    def fit(self, train: TrainView, setting: int, seed: int) -> ItemToItem:
        require_memory(
            3 * train.n_items**2 * 8,
            what=f"EDLAE's item-to-item tables for {train.n_items} items",
            hint="use slim, whose tables are sparse",
        )
        ridge, dropout, diagonal = self.grid[setting]
        matrix = train_matrix(train)
        gram_II = (matrix.T @ matrix).toarray()
        penalty_I = dropout / (1 - dropout) * gram_II.diagonal() + ridge
        gram_II[np.diag_indices_from(gram_II)] += penalty_I
        inverse_II = positive_inverse(gram_II)
        own_I = inverse_II.diagonal().copy()
        column_I = np.where(1 - penalty_I * own_I <= diagonal, penalty_I, (1 - diagonal) / own_I)
        inverse_II *= -column_I
        inverse_II[np.diag_indices_from(inverse_II)] += 1.0
        return ItemToItem(inverse_II)


def positive_inverse(matrix_II: np.ndarray) -> np.ndarray:
    """The inverse of a symmetric, positive definite matrix, which is overwritten.

    >>> positive_inverse(np.array([[3.0, 1.0], [1.0, 2.0]])).round(3).tolist()
    [[0.4, -0.2], [-0.2, 0.6]]
    """
    lower_II, failed = scipy.linalg.lapack.dpotrf(matrix_II, lower=1, overwrite_a=1)
    if failed == 0:
        lower_II, failed = scipy.linalg.lapack.dpotri(lower_II, lower=1, overwrite_c=1)
    if failed:
        raise TacitError("An item-to-item table has no inverse; take a larger ridge.")
    return np.asarray(np.tril(lower_II) + np.tril(lower_II, -1).T)


METHODS["edlae"] = Entry(
    build=Edlae,
    summary="central baseline: EASE with the penalty of dropout, closed form",
    rounds=Edlae().settings,
    presets={
        "paper": {},
        "relaxed": {"ridges": (100.0,), "diagonals": (0.1, 0.3, 0.5, 1.0)},
    },
)


# SLIM (Ning and Karypis, "SLIM: Sparse Linear Methods for Top-N Recommender Systems", ICDM 2011).
#
#     min over w_j:  1/2 |x_j - X w_j|^2 + ridge/2 |w_j|^2 + lasso |w_j|_1,  w_j >= 0, w_jj = 0
#
# by coordinate descent on the Gram matrix, column by column. An entry k of a column can only be
# above zero where k and j have more than `lasso` users in common: all weights and all counts are at
# least zero, so that nothing raises the slope of an entry above its first value. All other entries
# are left out, exactly. Descent ends when no entry moves the fit by more than TOLERANCE.
#
# Objective and constraints are the paper's; the order of descent and the grids are ours.

TOLERANCE = 1e-4  # largest change of an entry, times the root of its item's count
MOST_PASSES = 200
COLUMNS_AT_ONCE = 256


@compiled(error_model="numpy", inline="always")
def _moved(slope, before, count, lasso, ridge):  # type: ignore[no-untyped-def]
    """An entry where the objective is least, all others left as they are."""
    return max(0.0, (slope + count * before - lasso) / (count + ridge))


@compiled(error_model="numpy")
def _slim_columns(start, item, count, own_I, first, lasso, ridge, weight_BI):  # type: ignore[no-untyped-def]
    """Columns `first` and on of W, as rows of `weight_BI`, which come as zeros.

    (start, item, count) is the Gram matrix by rows, `own_I` its diagonal. A pass over all
    candidates of a column is followed by passes over those above zero alone, until they rest; when
    a pass over all moves nobody, the column is done.
    """
    n_items = len(own_I)
    place_I, active_I = np.full(n_items, -1), np.full(n_items, -1)
    for b in range(len(weight_BI)):
        column = first + b
        begin, end = start[column], start[column + 1]
        candidate_C = np.empty(end - begin, np.int64)
        slope_C = np.empty(end - begin)  # what a candidate explains of what is left
        n = 0
        for e in range(begin, end):
            if item[e] != column and count[e] > lasso:
                candidate_C[n], slope_C[n], place_I[item[e]] = item[e], count[e], n
                n += 1
        weight_C = np.zeros(n)
        for _ in range(MOST_PASSES):
            moved = 0.0
            for c in range(n):
                before = weight_C[c]
                if before == 0.0 and slope_C[c] <= lasso:
                    continue
                k = candidate_C[c]
                after = _moved(slope_C[c], before, own_I[k], lasso, ridge)
                moved = max(moved, abs(after - before) * np.sqrt(own_I[k]))
                weight_C[c] = after
                for e in range(start[k], start[k + 1]):
                    if place_I[item[e]] >= 0:
                        slope_C[place_I[item[e]]] -= (after - before) * count[e]
            if moved < TOLERANCE:
                break
            active_A = np.flatnonzero(weight_C)
            for a, c in enumerate(active_A):
                active_I[candidate_C[c]] = a
            gram_AA = np.zeros((len(active_A), len(active_A)))
            for a, c in enumerate(active_A):
                k = candidate_C[c]
                for e in range(start[k], start[k + 1]):
                    if active_I[item[e]] >= 0:
                        gram_AA[a, active_I[item[e]]] = count[e]
            slope_A, weight_A = slope_C[active_A], weight_C[active_A]
            for _ in range(MOST_PASSES):
                moved = 0.0
                for a in range(len(active_A)):
                    before, row_A = weight_A[a], gram_AA[a]
                    after = _moved(slope_A[a], before, row_A[a], lasso, ridge)
                    if after != before:
                        moved = max(moved, abs(after - before) * np.sqrt(row_A[a]))
                        weight_A[a] = after
                        for other in range(len(active_A)):
                            slope_A[other] -= (after - before) * row_A[other]
                if moved < TOLERANCE:
                    break
            for a, c in enumerate(active_A):
                k = candidate_C[c]
                active_I[k] = -1
                change, weight_C[c] = weight_A[a] - weight_C[c], weight_A[a]
                if change != 0.0:
                    for e in range(start[k], start[k + 1]):
                        if place_I[item[e]] >= 0:
                            slope_C[place_I[item[e]]] -= change * count[e]
        for c in range(n):
            place_I[candidate_C[c]] = -1
            weight_BI[b, candidate_C[c]] = weight_C[c]


def slim_weights(
    gram_II: scipy.sparse.csr_array, ridge: float, lasso: float
) -> scipy.sparse.csr_array:
    """SLIM's W, from a Gram matrix without negative entries.

    >>> gram_II = scipy.sparse.csr_array(np.array([[2.0, 1.0], [1.0, 1.0]]))
    >>> slim_weights(gram_II, ridge=3.0, lasso=0.5).toarray().tolist()
    [[0.0, 0.1], [0.125, 0.0]]
    """
    gram_II.sort_indices()
    start, item = gram_II.indptr.astype(np.int64), gram_II.indices.astype(np.int64)
    own_I, n_items = gram_II.diagonal(), gram_II.shape[0]
    blocks = []
    for first in range(0, n_items, COLUMNS_AT_ONCE):
        weight_BI = np.zeros((min(COLUMNS_AT_ONCE, n_items - first), n_items))
        _slim_columns(start, item, gram_II.data, own_I, first, lasso, ridge, weight_BI)
        blocks.append(scipy.sparse.csr_array(weight_BI))
    return scipy.sparse.csr_array(scipy.sparse.vstack(blocks).T)


@dataclass(frozen=True, eq=False)
class SparseItemToItem:
    """Scores xW with a sparse W."""

    weight_II: scipy.sparse.csr_array

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        return np.asarray((self._rows(histories) @ self.weight_II).toarray())

    def contributions(self, history: History) -> tuple[np.ndarray, np.ndarray]:
        row = self._rows([history])
        item_K = np.unique(history.item_H)
        weight_K = row[[0]].toarray()[0, item_K]
        return item_K, weight_K[:, None] * self.weight_II[item_K].toarray()

    def _rows(self, histories: Sequence[History]) -> scipy.sparse.csr_array:
        """The weight of each item of each history; one that stands there twice counts once."""
        start_B1 = np.cumsum([0, *(len(history) for history in histories)])
        item_N = np.concatenate([history.item_H for history in histories])
        weight_N = np.concatenate([history.weights for history in histories])
        key_N = np.repeat(np.arange(len(histories)), np.diff(start_B1)) * self.weight_II.shape[0]
        _, last_N = np.unique((key_N + item_N)[::-1], return_index=True)
        last_N = len(item_N) - 1 - last_N
        user_N = np.searchsorted(start_B1, last_N, side="right") - 1
        shape = (len(histories), self.weight_II.shape[0])
        entries = (weight_N[last_N], (user_N, item_N[last_N]))
        return scipy.sparse.csr_array(scipy.sparse.coo_array(entries, shape=shape))


@register("slim")
@dataclass(frozen=True)
class Slim(CentralMethod):
    """SLIM with a grid: every ridge with every lasso, the last of them changing fastest.

    >>> Slim(ridges=(10.0,), lassos=(1.0, 5.0)).grid
    [(10.0, 1.0), (10.0, 5.0)]
    """

    ridges: tuple[float, ...] = (10.0, 100.0)
    lassos: tuple[float, ...] = (0.5, 2.0, 5.0)
    recency: Recency | None = None

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        require_grid("lassos", self.lassos)

    @property
    def grid(self) -> list[tuple[float, float]]:
        """(ridge, lasso) of each setting."""
        return list(product(self.ridges, self.lassos))

    @property
    def settings(self) -> int:
        return len(self.grid)

    def fit(self, train: TrainView, setting: int, seed: int) -> SparseItemToItem:
        matrix = train_matrix(train)
        gram_II = scipy.sparse.csr_array(matrix.T @ matrix)
        return SparseItemToItem(slim_weights(gram_II, *self.grid[setting]))


METHODS["slim"] = Entry(
    build=Slim,
    summary="central baseline: sparse item-to-item model under an elastic net",
    rounds=Slim().settings,
)


# FedSlim (ours): SLIM from the sum that FedEase asks for. Coordinate descent reads nothing but the
# Gram matrix, so the server has SLIM's weights from one sum over clients; a client ranks with x'W.
#
# Rounds, bytes and what a server reads are those of `fedease`, and so is `row_power`; a row power
# of 1/2 bounds what one client adds. Under a claim of privacy it becomes what `fedease` becomes:
# noise fills the zeros of the sum, and nothing sparse is left to learn.


@register("fedslim")
@dataclass(frozen=True)
class FedSlim(PairSums):
    """SLIM over a one-shot Gram sum, with SLIM's grid.

    >>> FedSlim(ridges=(10.0,), lassos=(1.0, 5.0)).settings_tried
    2
    """

    ridges: tuple[float, ...] = Slim().ridges
    lassos: tuple[float, ...] = Slim().lassos
    row_power: float = 0.0
    column_power: float = 0.0
    recency: Recency | None = None
    privacy: PrivacyRequest | None = None

    # said again: what a class vouches for stands in the class itself (`core/capabilities.py`)
    bound, update, absorb = PairSums.bound, PairSums.update, PairSums.absorb
    score, contributions = PairSums.score, PairSums.contributions

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        require_grid("lassos", self.lassos)
        _ = self.scaling

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.row_power, column_power=self.column_power)

    @property
    def grid(self) -> list[tuple[float, float]]:
        """(ridge, lasso) of each setting."""
        return list(product(self.ridges, self.lassos))

    @property
    def settings_tried(self) -> int:
        return len(self.grid)

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        gram_II = total.get(GRAM, shared[GRAM])
        ridge, lasso = self.grid[min(round_number, len(self.grid)) - 1]
        count_II = symmetric(gram_II).clamp(min=0.0)  # as it is, unless somebody put noise on it
        weight_II = slim_weights(scipy.sparse.csr_array(count_II.numpy()), ridge, lasso)
        dense_II = torch.from_numpy(weight_II.toarray()).to(gram_II)
        return {GRAM: gram_II, WEIGHT: self.scaling.of_columns(dense_II, gram_II.diagonal())}


METHODS["fedslim"] = Entry(
    build=FedSlim,
    summary="ours: SLIM from one sum over clients",
    rounds=FedSlim().settings_tried,
)
