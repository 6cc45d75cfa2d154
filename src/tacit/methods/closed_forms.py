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
from tacit.data.dataset import Modalities
from tacit.data.protocol import added_later
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.counts_first import COUNTS
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.item_to_item import (
    ItemToItem,
    Scaling,
    content_gram,
    history_rows,
    known,
    require_grid,
    train_matrix,
    train_row,
    weights_of,
)
from tacit.methods.private_pairs import PrivatePairs
from tacit.methods.private_spectrum import PrivateSpectrum
from tacit.parts.cold.features import Features
from tacit.privacy.guarantee import PrivacyRequest

# EASE (Steck, 2019): the closed-form item-to-item model; a central baseline, not a federated
# method.
#
# B = argmin ‖X − XB‖² + λ‖B‖² with a zero diagonal: with P = (XᵀX + λI)⁻¹, B_ij = −P_ij / P_jj for
# i ≠ j. λ is chosen on validation among `ridges`. How rows and columns are scaled is ours
# (`item_to_item.py`); without it this is the paper's model.


@register("ease")
@dataclass(frozen=True)
class Ease(CentralMethod):
    """EASE with a grid of ridge penalties λ.

    >>> Ease(ridges=(10.0, 100.0)).settings
    2
    """

    ridges: tuple[float, ...] = (5.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
    recency: Recency | None = None
    row_power: float = added_later(0.0)
    dropout: float = added_later(0.0)
    column_power: float = added_later(0.0)

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        _ = self.scaling

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.row_power, self.dropout, self.column_power)

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
        size_U = np.maximum(matrix.sum(axis=1), 1.0) ** -(2 * self.row_power)
        gram_II = (matrix.T @ (scipy.sparse.diags_array(size_U) @ matrix)).toarray()
        count_I = torch.from_numpy(gram_II.diagonal().copy())
        penalty_I = self.scaling.penalty(count_I, self.ridges[setting]).numpy()
        gram_II[np.diag_indices_from(gram_II)] += penalty_I
        inverse_II = np.linalg.inv(gram_II)
        weight_II = -inverse_II / np.diag(inverse_II)
        np.fill_diagonal(weight_II, 0.0)
        return ItemToItem(self.scaling.of_columns(torch.from_numpy(weight_II), count_I).numpy())


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
# With `row_power` a client answers for a shorter row, and with `dropout` and `column_power` the
# server weighs items by the diagonal of the sum (`item_to_item.py`): nothing more is sent. `scale =
# "norm"` is a row power of 1/2: a client's part of the sum then has Frobenius norm 1, whatever its
# history. Under a claim of privacy another release takes the place of this one
# (`private_pairs.py`): noisy counts first, then the Gram matrix of the items that are heard. It
# knows the power of columns, and refuses all else that is set here.
#
# `diagonal` above 0 relaxes the zero diagonal (RLAE), and `content` is a prior for items that few
# people have, as strong as `people` of them (`item_to_item.py`). Items that nobody has are ranked
# too then, by their content. Clients send and receive what they did without.

GRAM, WEIGHT = "gram", "weight"
RIDGE = "ridge"  # of the round, kept for `complete`; never sent

# Under a claim of privacy; docs/privacy.md says on which data they were chosen.
PRIVATE_EASE: dict[str, Any] = {
    "near": False,
    "item_power": 0.15,
    "shrink": True,
    "ridge": 4.0,
    "column_power": 0.2,
}
PRIVATE_LAST = 100


class PairSums(CustomMethod):
    """What methods share whose server learns from one sum of x xᵀ over clients, and whose clients
    rank with their row times a table of weights. A method adds the step from one to the other."""

    @property
    def scaling(self) -> Scaling:
        """How much rows and columns count."""
        raise NotImplementedError

    def protected(self, request: PrivacyRequest) -> PrivatePairs:
        """All pairs from one noisy release; with recency a client speaks of its latest items."""
        last = None if self.recency is None else PRIVATE_LAST
        kept = carried_over(self, PrivatePairs)
        return PrivatePairs(**(PRIVATE_EASE | kept), last=last, privacy=request)

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0) if self.scaling.bounds else None

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
        row_I = self.scaling.of_row(row_I, row_I.square().sum())
        # one row, said once for each item: no copy is made until the server adds it up
        return private, {GRAM: row_I.expand(len(data.history_H), -1)}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return train_row(data, len(received[WEIGHT])) @ received[WEIGHT]

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        return data.real_H[:, None] * received[WEIGHT][data.history_H]

    def interpretation(self) -> list[str]:
        counts = "how many clients have each pair of items"
        if self.scaling.row_power:
            norm = self.scaling.row_power == 0.5
            counts += f", each client scaled {'to norm 1' if norm else 'by its length'}"
        return [
            f"only the sum of the uploads is used: under secure aggregation the server reads "
            f"{counts}, and no client's own pairs",
            "without secure aggregation it reads a client's history in full",
        ]


@register("fedease")
@dataclass(frozen=True)
class FedEase(PairSums):
    """EASE over a one-shot Gram sum, with a grid of ridge penalties.

    >>> [FedEase().sends(round_number) for round_number in (1, 2, 3)]
    [True, False, False]
    """

    ridges: tuple[float, ...] = Ease().ridges
    recency: Recency | None = None
    scale: Literal["none", "norm"] = added_later("none")
    privacy: PrivacyRequest | None = None
    row_power: float = added_later(0.0)
    dropout: float = added_later(0.0)
    column_power: float = added_later(0.0)
    diagonal: float = added_later(0.0)  # the largest that an entry of the diagonal may be
    content: Features | None = added_later(None)
    people: float = added_later(3.0)  # whom content counts for; not looked at without content

    # said again: what a class vouches for stands in the class itself (`core/capabilities.py`)
    bound, update, absorb = PairSums.bound, PairSums.update, PairSums.absorb
    score, contributions = PairSums.score, PairSums.contributions

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        _require_one_scale(self.scale, self.row_power)
        if not 0 <= self.diagonal <= 1:
            raise TacitError(f"diagonal is {self.diagonal}; it must be from 0 to 1.")
        if not 0 < self.people < np.inf:
            raise TacitError(f"people is {self.people}; it must be a number above 0.")
        if self.content is not None and self.content.reduce:
            raise TacitError(
                "content.reduce is true, and this method has no table of items to whose width "
                "content could be reduced; set content.reduce to false."
            )
        _ = self.scaling

    @property
    def scaling(self) -> Scaling:
        row_power = 0.5 if self.scale == "norm" else self.row_power
        return Scaling(row_power, self.dropout, self.column_power)

    @property
    def settings_tried(self) -> int:
        return len(self.ridges)

    def shared(self, task: Task) -> dict[str, Initializer]:
        kept = {} if self.content is None else {RIDGE: Initializer(())}
        return {**super().shared(task), **kept}

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        gram_II = total.get(GRAM, shared[GRAM])
        ridge = self.ridges[min(round_number, len(self.ridges)) - 1]
        if self.content is not None:  # solved in `complete`, which is given the content
            kept = {RIDGE: torch.tensor(ridge, dtype=torch.float64)}
            return {GRAM: gram_II, WEIGHT: shared[WEIGHT], **kept}
        return {GRAM: gram_II, WEIGHT: self._weight(gram_II, gram_II, ridge)}

    @property
    def steps_on_gpu(self) -> bool:
        return True

    @property
    def ranks_unseen(self) -> bool:
        return self.content is not None

    def complete(self, shared: Params, content: Modalities) -> Params:
        assert self.content is not None
        gram_II = shared[GRAM]
        alike_II = content_gram(self.content, content, gram_II.diagonal())
        both_II = gram_II + self.people * alike_II
        return {**shared, WEIGHT: self._weight(gram_II, both_II, float(shared[RIDGE]))}

    def _weight(self, gram_II: Tensor, known_II: Tensor, ridge: float) -> Tensor:
        """Weights from all that is known of pairs, scaled by how many people have an item."""
        require_memory(
            3 * gram_II.numel() * 8,
            what=f"EASE's item-to-item tables for {len(gram_II)} items",
            hint="use fedspectral, whose tables are thin",
        )
        count_I = gram_II.diagonal()
        penalty_I = self.scaling.penalty(count_I, ridge)
        inverse_II = torch.linalg.inv(known_II + torch.diag(penalty_I))
        weight_II = weights_of(inverse_II, penalty_I, self.diagonal)
        return self.scaling.of_columns(weight_II, count_I)


def _require_one_scale(scale: str, row_power: float) -> None:
    """Refuse two ways to say how much a long history counts."""
    if scale == "norm" and row_power:
        raise TacitError(
            f'scale is "norm", which is a row_power of 0.5, and row_power is {row_power}; give one.'
        )


METHODS["fedease"] = Entry(
    build=FedEase,
    summary="ours: EASE from one sum over clients",
    rounds=len(FedEase().ridges),
    presets={"paper": {}, "content": {"content": Features(reduce=False)}},
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
# included, so that its answer has at most Frobenius norm 1. `row_power` in its place is another
# power of the length (`item_to_item.py`).
#
# With `degree_power` columns are divided by a power of how many clients have the item, and scores
# are multiplied back: directions are those of x D^-p. The counts come from one more sum, which
# clients send in the first round in the place of their answer. Under a claim this is refused.

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
    row_power: float = added_later(0.0)
    degree_power: float = added_later(0.0)

    def __post_init__(self) -> None:
        if self.width < 1:
            raise TacitError(f"width is {self.width}; it must be at least 1.")
        if not 0 <= self.degree_power <= 1:
            raise TacitError(f"degree_power is {self.degree_power}; it must be from 0 to 1.")
        _require_one_scale(self.scale, self.row_power)
        _ = self.scaling

    @property
    def scaling(self) -> Scaling:
        return Scaling(0.5 if self.scale == "norm" else self.row_power)

    def protected(self, request: PrivacyRequest) -> PrivateSpectrum:
        """Fewer directions, in two rounds and over heard items alone."""
        return PrivateSpectrum(**carried_over(self, PrivateSpectrum), privacy=request)

    @property
    def bound(self) -> Bound | None:
        """Only where bases are orthonormal and no counts are sent."""
        return Bound(2, 1.0) if self.scale == "norm" and not self.degree_power else None

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset({BASIS})

    @property
    def shows_history(self) -> frozenset[str]:
        return frozenset({COUNTS}) if self.degree_power else frozenset()

    def shared(self, task: Task) -> dict[str, Initializer]:
        shape = (task.n_items, min(2 * self.width, task.n_items))
        kind: Literal["orthonormal", "normal"] = "orthonormal" if self.scale == "norm" else "normal"
        counts = {COUNTS: Initializer((task.n_items,))} if self.degree_power else {}
        return {BASIS: Initializer(shape, kind), **counts}

    def sent_in(self, round_number: int) -> frozenset[str] | None:
        if not self.degree_power:
            return None
        return frozenset({COUNTS}) if round_number == 1 else frozenset({BASIS})

    def _item_weights(self, received: Params) -> Tensor:
        """What columns are multiplied by, (I,)."""
        if not self.degree_power:
            return torch.ones_like(received[BASIS][:, 0])
        return known(received[COUNTS]) ** -self.degree_power

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        row_I = train_row(data, len(received[BASIS]))
        if self.degree_power and round_number == 1:
            return private, {COUNTS: row_I.to(received[COUNTS])}
        weight_I = self._item_weights(received)
        head_D = _head(weight_I[:, None] * received[BASIS], data)
        head_D = self.scaling.of_row(head_D, row_I.square().sum())
        if not self.degree_power:
            return private, {BASIS: head_D.expand(len(data.history_H), -1)}
        return private, {BASIS: weight_I[data.history_H, None] * head_D}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        if COUNTS in total:
            return {**shared, COUNTS: total[COUNTS]}
        # The first basis is a draw, and devices may round: made orthonormal here, with what it does
        # to the sum undone, so that the Ritz step is exact in every round.
        basis_ID, change_DD = torch.linalg.qr(shared[BASIS])
        turned_ID = torch.linalg.solve_triangular(change_DD, total[BASIS], upper=True, left=False)
        ritz_DD = basis_ID.T @ turned_ID
        _, rotation_DD = torch.linalg.eigh((ritz_DD + ritz_DD.T) / 2)
        best_first_ID = turned_ID @ rotation_DD.flip(1)
        return {**shared, BASIS: torch.linalg.qr(best_first_ID)[0]}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        basis_ID, weight_I = received[BASIS][:, : self.width], self._item_weights(received)
        return basis_ID @ _head(weight_I[:, None] * basis_ID, data) / weight_I

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        basis_ID, weight_I = received[BASIS][:, : self.width], self._item_weights(received)
        weight_H = data.real_H * weight_I[data.history_H]
        return (weight_H[:, None] * basis_ID[data.history_H]) @ basis_ID.T / weight_I

    def interpretation(self) -> list[str]:
        counted = "in the first round it reads how many clients have each item, from a sum"
        return [
            *([counted] if self.degree_power else []),
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
    chosen={"paper": Chosen(("ml-100k",), tried=3)},
)
