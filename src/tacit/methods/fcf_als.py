"""FCF as its paper has it (Ammad-ud-din et al., 2019): implicit ALS with a federated item step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.compiled import compiled
from tacit.core.algorithm import ClientData
from tacit.core.custom import CustomMethod
from tacit.core.optim import Adam
from tacit.core.ragged import RaggedBatch
from tacit.core.recency import Recency
from tacit.core.registry import register
from tacit.core.types import ITEMS, Initializer, Params, Task
from tacit.data.sampling import Sampling
from tacit.data.views import Lists
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.privacy.guarantee import PrivacyRequest

# FCF's least squares for all clients at once.
#
# YᵀY is made once for everybody, a client adds its own few rows. Of the sum of all answers, what
# clients say of items that they do not have is −Y Σ x xᵀ, one product for all of them; the train
# items alone are visited one by one.


@compiled(error_model="numpy")
def _own_products(start, item, item_ID, product_PDD):  # type: ignore[no-untyped-def]
    """Σ y yᵀ over each history, added to zeros: the lower half."""
    for p in range(len(product_PDD)):
        for n in range(start[p], start[p + 1]):
            row = item_ID[item[n]]
            for d in range(len(row)):
                for e in range(d + 1):
                    product_PDD[p, d, e] += row[d] * row[e]


def ragged_vectors(item_ID: Tensor, history: Lists, confidence: float, ridge: float) -> Tensor:
    """`FcfAls.solve` of each history.

    >>> history = Lists(np.array([0, 1, 2]), np.array([0, 1]))
    >>> ragged_vectors(torch.tensor([[1.0], [2.0]]), history, confidence=3.0, ridge=1.0).tolist()
    [[0.4444444477558136], [0.4444444477558136]]
    """
    dim = item_ID.shape[1]
    lower_PDD = item_ID.new_zeros(len(history), dim, dim)
    _own_products(history.start_U1, history.item_N, item_ID.numpy(), lower_PDD.numpy())
    own_PDD = lower_PDD + lower_PDD.tril(-1).mT
    left_PDD = item_ID.T @ item_ID + confidence * own_PDD + ridge * torch.eye(dim).to(item_ID)
    client_N, item_N, times_N = _pairs(history)
    weight_N = (1.0 + confidence * times_N).to(item_ID)
    right_PD = item_ID.new_zeros(len(history), dim)
    right_PD.index_add_(0, client_N, weight_N[:, None] * item_ID[item_N])
    return torch.linalg.solve(left_PDD, right_PD)


def ragged_pull(item_ID: Tensor, user_PD: Tensor, history: Lists, confidence: float) -> Tensor:
    """The sum of the clients' answers c (p − xᵀy) x, in double precision."""
    user_PD, item_ID = user_PD.double(), item_ID.double()
    client_N, item_N, times_N = _pairs(history)
    own_ND = user_PD[client_N]
    score_N = (own_ND * item_ID[item_N]).sum(1)
    # the answer for a train item, less the −xᵀy that the product says of every item
    more_N = 1.0 + confidence * times_N * (1.0 - score_N)
    pull_ID = -item_ID @ (user_PD.T @ user_PD)
    return pull_ID.index_add_(0, item_N, more_N[:, None] * own_ND)


def _pairs(history: Lists) -> tuple[Tensor, Tensor, Tensor]:
    """Each client with each of its items once, and how often the item stands there."""
    client_N = np.repeat(np.arange(len(history)), history.size_U)
    width = int(history.item_N.max(initial=0)) + 1
    code_N, times_N = np.unique(client_N * width + history.item_N, return_counts=True)
    return (
        torch.from_numpy(code_N // width),
        torch.from_numpy(code_N % width),
        torch.from_numpy(times_N).double(),
    )


# FCF as its paper has it (Ammad-ud-din et al., 2019): implicit ALS with a federated item step.
#
# The objective is that of implicit matrix factorisation: Σ c (p − xᵀy)² over all users and items,
# plus λ times all squared norms; p = 1 and c = 1 + α r for an item that stands r times in a
# history, p = 0 and c = 1 for the others. A client solves its own vector exactly, x = (YᵀCY +
# λI)⁻¹ YᵀC p, keeps it, and answers c (p − xᵀy) x for every item. The server adds the answers up,
# adds the regulariser, and takes one Adam step on Y; Adam's moments never leave it.
#
# The paper fixes the objective, the closed form, what is sent, and Adam on the server. We chose
# the rest: Adam's usual moments; that the vector is solved anew from the current table whenever a
# client ranks; and width 32 with α = 1, λ = 10 and rate 0.05, the best of five settings on
# ML-100K's validation part (one seed, 60 rounds, α of 1 and 10, λ of 1 and 10, rates of 0.01 and
# 0.05; α = 1 learns faster than 10, and λ keeps late rounds from falling).

MOMENTS = ("first", "second", "steps")
PIECE = 1024  # clients at a time: what one holds of each is D x D


@register("fcf_als")
@dataclass(frozen=True)
class FcfAls(CustomMethod):
    """FCF's alternating least squares.

    >>> sorted(FcfAls(dim=4).shared(Task(n_users=3, n_items=5)))
    ['items', 'moments.first', 'moments.second', 'moments.steps']
    """

    dim: int = 32
    confidence: float = 1.0  # α: an item that was taken once counts 1 + α times
    ridge: float = 10.0  # λ
    server: Adam = Adam(rate=0.05)
    recency: Recency | None = None
    privacy: PrivacyRequest | None = None

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise TacitError(f"dim is {self.dim}; it must be at least 1.")
        if self.confidence < 0 or self.ridge <= 0:
            raise TacitError(
                f"confidence is {self.confidence} and ridge {self.ridge}; the first must not be "
                "negative and the second must be above 0."
            )

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    @property
    def sampling(self) -> Sampling | None:
        return None

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset()  # items that the client does not have pull, too

    def shared(self, task: Task) -> dict[str, Initializer]:
        table = (task.n_items, self.dim)
        return {
            ITEMS: Initializer(table, "normal", 0.1),
            "moments.first": Initializer(table),
            "moments.second": Initializer(table),
            "moments.steps": Initializer(()),
        }

    def uploads(self, task: Task) -> frozenset[str]:
        return frozenset({ITEMS})

    def private(self, task: Task) -> dict[str, Initializer]:
        return {}

    def noise(self, task: Task) -> dict[str, Initializer]:
        return {}

    def sends(self, round_number: int) -> bool:
        return True

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {ITEMS: shared[ITEMS]}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        item_ID = received[ITEMS]
        user_D = self.solve(item_ID, data)
        times_I = _times(item_ID, data)
        wanted_I = (times_I > 0).to(item_ID)
        pull_I = (1.0 + self.confidence * times_I) * (wanted_I - item_ID @ user_D)
        return private, {ITEMS: pull_I[:, None] * user_D}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        item_ID = shared[ITEMS]
        gradient_ID = -2.0 * total[ITEMS] + 2.0 * self.ridge * item_ID
        rate = self.server.rate_at(round_number, len(item_ID))
        moments = {slot: shared[f"moments.{slot}"] for slot in MOMENTS}
        stepped_ID, moments = self.server.update(item_ID, gradient_ID, moments, rate)
        return {ITEMS: stepped_ID, **{f"moments.{slot}": moments[slot] for slot in MOMENTS}}

    def solve(self, item_ID: Tensor, data: ClientData) -> Tensor:
        """The client's own vector. YᵀCY = YᵀY + α times the part of the history, and YᵀY is the
        same for everybody. An item of weight w counts as w of one that was taken and 1 − w of one
        that was not, so C is linear in w, and so is C p."""
        row_HD = item_ID[data.history_H]
        own_HD = row_HD * data.real_H[:, None]
        ridge_DD = self.ridge * torch.eye(self.dim, dtype=item_ID.dtype)
        left_DD = item_ID.T @ item_ID + self.confidence * own_HD.T @ row_HD + ridge_DD
        # p counts an item once, however often it stands there
        once_H = 1.0 / _times(item_ID, data)[data.history_H].clamp(min=1.0)
        return torch.linalg.solve(left_DD, ((once_H + self.confidence)[:, None] * own_HD).sum(0))

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return received[ITEMS] @ self.solve(received[ITEMS], data)

    @property
    def runs_ragged(self) -> bool:
        return True

    def update_ragged(
        self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
    ) -> Params:
        arrived = batch.take(np.flatnonzero(batch.reports_P))  # no client keeps anything
        pull_ID = torch.zeros_like(shared[ITEMS], dtype=torch.float64)
        for piece in arrived.pieces(PIECE):
            user_PD = ragged_vectors(shared[ITEMS], piece.history, self.confidence, self.ridge)
            pull_ID += ragged_pull(shared[ITEMS], user_PD, piece.history, self.confidence)
        return {ITEMS: pull_ID}

    def score_ragged(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        user_BD = ragged_vectors(shared[ITEMS], history, self.confidence, self.ridge)
        return user_BD @ shared[ITEMS].T

    def interpretation(self) -> list[str]:
        return [
            "only the sum of the uploads is used: under secure aggregation the server reads the "
            "gradient of all clients of a round together",
            "without secure aggregation it reads a client's history: rows of train items point "
            "along its vector, the others against it",
        ]


def _times(item_ID: Tensor, data: ClientData) -> Tensor:
    """How often each item stands in the history."""
    return data.real_H.new_zeros(len(item_ID)).index_add(0, data.history_H, data.real_H)


METHODS["fcf_als"] = Entry(
    build=FcfAls,
    summary="implicit ALS: clients solve, the server steps on items",
    rounds=100,
    chosen={"paper": Chosen(("ml-100k",), tried=5)},
)
