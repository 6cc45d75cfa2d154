"""FCF's least squares for all clients at once.

YᵀY is made once for everybody, a client adds its own few rows. Of the sum of all answers, what
clients say of items that they do not have is −Y Σ x xᵀ, one product for all of them; the train
items alone are visited one by one.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit.compiled import compiled
from tacit.data.views import Lists


@compiled(error_model="numpy")
def _own_products(start, item, item_ID, product_PDD):  # type: ignore[no-untyped-def]
    """Σ y yᵀ over each history, added to zeros: the lower half."""
    for p in range(len(product_PDD)):
        for n in range(start[p], start[p + 1]):
            row = item_ID[item[n]]
            for d in range(len(row)):
                for e in range(d + 1):
                    product_PDD[p, d, e] += row[d] * row[e]


def crowd_vectors(item_ID: Tensor, history: Lists, confidence: float, ridge: float) -> Tensor:
    """`FcfAls.solve` of each history.

    >>> history = Lists(np.array([0, 1, 2]), np.array([0, 1]))
    >>> crowd_vectors(torch.tensor([[1.0], [2.0]]), history, confidence=3.0, ridge=1.0).tolist()
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


def crowd_pull(item_ID: Tensor, user_PD: Tensor, history: Lists, confidence: float) -> Tensor:
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
