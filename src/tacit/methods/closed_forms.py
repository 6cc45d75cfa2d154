"""Linear closed forms: EASE and PureSVD, and FedEase and FedSpectral, which get there by sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from tacit import streams
from tacit.core.algorithm import Bound, ClientData
from tacit.core.central import CentralMethod
from tacit.core.custom import CustomMethod, carried_over
from tacit.core.recency import Recency
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.data.protocol import added_later
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.entry import METHODS, Entry
from tacit.methods.private_pairs import PrivatePairs
from tacit.methods.private_spectrum import PrivateSpectrum
from tacit.privacy.guarantee import PrivacyRequest

# EASE (Steck, 2019): the closed-form item-to-item model; a central baseline, not a federated
# method.
#
# B = argmin ‖X − XB‖² + λ‖B‖² with a zero diagonal: with P = (XᵀX + λI)⁻¹, B_ij = −P_ij / P_jj for
# i ≠ j. λ is chosen on validation among `ridges`.


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


@register("ease")
@dataclass(frozen=True)
class Ease(CentralMethod):
    """EASE with a grid of ridge penalties λ.

    >>> Ease(ridges=(10.0, 100.0)).settings
    2
    """

    ridges: tuple[float, ...] = (5.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
    recency: Recency | None = None

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
    build=Ease,
    summary="central baseline: closed-form item-to-item model",
    rounds=len(Ease().ridges),
)


# PureSVD (Cremonesi et al., 2010): scores x V Vᵀ from the leading right singular vectors of the
# train matrix; a central baseline. The width is chosen on validation among `widths`.


@dataclass(frozen=True, eq=False)
class Subspace:
    basis_ID: np.ndarray

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        row_BI = history_rows(histories, len(self.basis_ID))
        return (row_BI @ self.basis_ID) @ self.basis_ID.T

    def contributions(self, history: History) -> tuple[np.ndarray, np.ndarray]:
        row_I = history_rows([history], len(self.basis_ID))[0]
        item_K = np.unique(history.item_H)
        return item_K, (row_I[item_K, None] * self.basis_ID[item_K]) @ self.basis_ID.T


@register("pure_svd")
@dataclass(frozen=True)
class PureSvd(CentralMethod):
    """PureSVD with a grid of widths.

    >>> PureSvd(widths=(8, 16)).settings
    2
    """

    widths: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    recency: Recency | None = None

    @property
    def settings(self) -> int:
        return len(self.widths)

    def fit(self, train: TrainView, setting: int, seed: int) -> Subspace:
        matrix = train_matrix(train)
        width = min(self.widths[setting], min(matrix.shape) - 1)
        start = streams.numpy_generator(seed, streams.INIT, 0).standard_normal(min(matrix.shape))
        _, _, right_DI = scipy.sparse.linalg.svds(matrix, k=width, v0=start)
        return Subspace(np.ascontiguousarray(right_DI.T))


METHODS["pure_svd"] = Entry(
    build=PureSvd,
    summary="central baseline: leading singular vectors of the train matrix",
    rounds=len(PureSvd().widths),
)


# FedEase (ours): EASE from one sum over clients.
#
# In the first round a client answers its train row x, once for each item of its history: the sum
# over clients is the Gram matrix XᵀX, all that EASE needs of anybody. The server then solves (see
# `tacit.methods.closed_forms`); later rounds ask nobody for anything and try the next ridge of the
# grid, and validation picks one. A client ranks with xᵀB.
#
# Bytes count one upload and one download of an (I, I) table; trying r ridges on validation, as a
# run does, sends r - 1 more tables down. Who does not take part in the first round is not in the
# sum.
#
# With `scale = "norm"` a client answers for x / |x|, so that its part of the sum has Frobenius norm
# 1, whatever its history. Under a claim of privacy another release takes the place of this one
# (`private_pairs.py`): noisy counts first, then the Gram matrix of the items that are heard.

GRAM, WEIGHT = "gram", "weight"

# Under a claim of privacy; docs/privacy.md says on which data they were chosen.
PRIVATE_EASE: dict[str, Any] = {
    "near": False,
    "item_power": 0.15,
    "shrink": True,
    "ridge": 4.0,
    "column_power": 0.2,
}
PRIVATE_LAST = 100


@register("fedease")
@dataclass(frozen=True)
class FedEase(CustomMethod):
    """EASE over a one-shot Gram sum, with a grid of ridge penalties.

    >>> [FedEase().sends(round_number) for round_number in (1, 2, 3)]
    [True, False, False]
    """

    ridges: tuple[float, ...] = Ease().ridges
    recency: Recency | None = None
    scale: Literal["none", "norm"] = added_later("none")
    privacy: PrivacyRequest | None = None

    def __post_init__(self) -> None:
        if not self.ridges or min(self.ridges) <= 0:
            raise TacitError(f"ridges are {self.ridges}; give at least one, all above 0.")

    @property
    def settings_tried(self) -> int:
        return len(self.ridges)

    def protected(self, request: PrivacyRequest) -> PrivatePairs:
        """All pairs from one noisy release; with recency a client speaks of its latest items."""
        last = None if self.recency is None else PRIVATE_LAST
        kept = carried_over(self, PrivatePairs)
        return PrivatePairs(**(PRIVATE_EASE | kept), last=last, privacy=request)

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0) if self.scale == "norm" else None

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset({GRAM})

    def shared(self, task: Task) -> dict[str, Initializer]:
        square = Initializer((task.n_items, task.n_items))
        return {GRAM: square, WEIGHT: square}

    def uploads(self, task: Task) -> frozenset[str]:
        return frozenset({GRAM})

    def sends(self, round_number: int) -> bool:
        return round_number == 1

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {WEIGHT: shared[WEIGHT]}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        row_I = train_row(data, len(received[WEIGHT]))
        if self.scale == "norm":
            row_I = _over_square(row_I, row_I)
        # one row, said once for each item: no copy is made until the server adds it up
        return private, {GRAM: row_I.expand(len(data.history_H), -1)}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        gram_II = total.get(GRAM, shared[GRAM])
        require_memory(
            3 * gram_II.numel() * 8,
            what=f"EASE's item-to-item tables for {len(gram_II)} items",
            hint="use fedspectral, whose tables are thin",
        )
        ridge = self.ridges[min(round_number, len(self.ridges)) - 1]
        inverse_II = torch.linalg.inv(gram_II + ridge * torch.eye(len(gram_II)).to(gram_II))
        weight_II = -inverse_II / inverse_II.diagonal()
        return {GRAM: gram_II, WEIGHT: weight_II.fill_diagonal_(0.0)}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return train_row(data, len(received[WEIGHT])) @ received[WEIGHT]

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        return data.real_H[:, None] * received[WEIGHT][data.history_H]

    def interpretation(self) -> list[str]:
        counts = "how many clients have each pair of items"
        if self.scale == "norm":
            counts += ", each client scaled to norm 1"
        return [
            f"only the sum of the uploads is used: under secure aggregation the server reads "
            f"{counts}, and no client's own pairs",
            "without secure aggregation it reads a client's history in full",
        ]


def train_row(data: ClientData, n_items: int) -> Tensor:
    """x: one for each item of the history, or its weight; zero elsewhere."""
    return data.real_H.new_zeros(n_items).index_add(0, data.history_H, data.real_H)


def _over_square(value: Tensor, row_I: Tensor) -> Tensor:
    """A value over |x|², and zero for an empty history: x xᵀ then has norm 1, or 0."""
    square = row_I.square().sum()
    return torch.where(square > 0, value / square.clamp(min=1.0), torch.zeros_like(value))


METHODS["fedease"] = Entry(
    build=FedEase,
    summary="ours: EASE from one sum over clients",
    rounds=len(FedEase().ridges),
)


# FedSpectral (ours): federated subspace iteration, the federated road to PureSVD.
#
# The server broadcasts a basis V of item directions, (I, 2k) and orthonormal after the first
# round. A client with the train row x answers x (xᵀV): one row, the same for each item of its
# history. The sum over clients is XᵀX V, and nothing but the sum is used, so it can be a secure
# one. The server takes the Ritz vectors of V, sorted by Ritz value, multiplied once more by XᵀX,
# and orthonormalises: the leading k columns are then the best singular directions known so far. A
# client ranks with a head of its own in closed form, w = V_kᵀ x, which never leaves the device:
# score = V_k w. There is no rate and no gradient.
#
# The error falls by about (σ_2k+1 / σ_k)² per round: the second k columns are not ranked with,
# they are there for speed. On ML-100K that factor is 0.60 for k = 16, 0.71 for 32 and 0.66 for 64.
# k = 32 was chosen there, on validation and with one seed: NDCG@10 after ten rounds is 0.081 for
# 16, 0.082 for 32 and 0.076 for 64.
#
# With `scale = "norm"` a client answers for x / |x|. All bases are orthonormal then, the first one
# included, so that its answer has at most Frobenius norm 1.

BASIS = "basis"


@register("fedspectral")
@dataclass(frozen=True)
class FedSpectral(CustomMethod):
    """Subspace iteration over a sum of clients; `width` is k, how many directions rank.

    >>> FedSpectral(width=4).shared(Task(n_users=5, n_items=30))["basis"].shape
    (30, 8)
    """

    width: int = 32
    recency: Recency | None = None
    scale: Literal["none", "norm"] = added_later("none")
    privacy: PrivacyRequest | None = None

    def __post_init__(self) -> None:
        if self.width < 1:
            raise TacitError(f"width is {self.width}; it must be at least 1.")

    def protected(self, request: PrivacyRequest) -> PrivateSpectrum:
        """Fewer directions, in two rounds and over heard items alone."""
        return PrivateSpectrum(**carried_over(self, PrivateSpectrum), privacy=request)

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0) if self.scale == "norm" else None

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset({BASIS})

    def shared(self, task: Task) -> dict[str, Initializer]:
        shape = (task.n_items, min(2 * self.width, task.n_items))
        return {BASIS: Initializer(shape, "orthonormal" if self.scale == "norm" else "normal")}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        head_D = _head(received[BASIS], data)
        if self.scale == "norm":
            head_D = _over_square(head_D, train_row(data, len(received[BASIS])))
        return private, {BASIS: head_D.expand(len(data.history_H), -1)}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        # The first basis is a draw, and devices may round: made orthonormal here, with what it does
        # to the sum undone, so that the Ritz step is exact in every round.
        basis_ID, change_DD = torch.linalg.qr(shared[BASIS])
        turned_ID = torch.linalg.solve_triangular(change_DD, total[BASIS], upper=True, left=False)
        ritz_DD = basis_ID.T @ turned_ID
        _, rotation_DD = torch.linalg.eigh((ritz_DD + ritz_DD.T) / 2)
        best_first_ID = turned_ID @ rotation_DD.flip(1)
        return {BASIS: torch.linalg.qr(best_first_ID)[0]}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        basis_ID = received[BASIS][:, : self.width]
        return basis_ID @ _head(basis_ID, data)

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        basis_ID = received[BASIS][:, : self.width]
        return (data.real_H[:, None] * basis_ID[data.history_H]) @ basis_ID.T

    def interpretation(self) -> list[str]:
        return [
            "only the sum of the uploads is used: under secure aggregation the server reads Σ x xᵀV"
            " over the clients of a round, and no client's part of it",
            "without secure aggregation it reads a client's history: the rows that are not zero",
        ]


def _head(basis_ID: Tensor, data: ClientData) -> Tensor:
    """xᵀV: the sum of the basis rows of the history."""
    return (basis_ID[data.history_H] * data.real_H[:, None]).sum(0)


METHODS["fedspectral"] = Entry(
    build=FedSpectral,
    summary="ours: singular directions by federated subspace iteration",
    rounds=10,
)
