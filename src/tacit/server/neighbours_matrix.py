"""The sums of `neighbours_cpu` as matrix products, for tables on a device made for those."""

from __future__ import annotations

import torch
from torch import Tensor

_WIDE = 1 << 16  # columns at a time: the copy of some users' columns stays small beside the tables


def products(table_UF: Tensor, user_P: Tensor) -> Tensor:
    """The inner products of some users' tables, pair by pair.

    >>> tables = torch.tensor([[1.0, 2.0], [9.0, 9.0], [0.0, 3.0]])
    >>> products(tables, torch.tensor([0, 2])).tolist()
    [[5.0, 6.0], [6.0, 9.0]]
    """
    product_PP = table_UF.new_zeros(len(user_P), len(user_P))
    for part_UF in table_UF.split(_WIDE, dim=1):
        part_PF = part_UF[user_P]
        product_PP.addmm_(part_PF, part_PF.T)
    return product_PP


def mean_changes(
    linked_PP: Tensor,
    user_P: Tensor,
    table_UF: Tensor,
    start_F: Tensor,
    layers: int,
    guide_UF: Tensor,
) -> Tensor:
    """Writes start + the mean of its neighbours' changes for every user of `user_P` to `guide_UF`,
    and returns the mean of that over users. Every user must have a neighbour.

    >>> linked, guide = torch.tensor([[True, True], [False, True]]), torch.zeros(2, 1)
    >>> tables = torch.tensor([[1.0], [3.0]])
    >>> mean_changes(linked, torch.tensor([0, 1]), tables, torch.zeros(1), 1, guide).tolist()
    [2.5]
    >>> guide.tolist()
    [[2.0], [3.0]]
    """
    linked_PP = linked_PP.to(table_UF)
    share_PP = linked_PP / linked_PP.sum(1, keepdim=True)
    mean_F = torch.empty_like(start_F)
    for low in range(0, table_UF.shape[1], _WIDE):
        here = slice(low, low + _WIDE)
        change_PF = table_UF[:, here][user_P] - start_F[here]
        for _ in range(layers):
            change_PF = share_PP @ change_PF
        guide_UF[:, here][user_P] = start_F[here] + change_PF
        mean_F[here] = start_F[here] + change_PF.mean(0)
    return mean_F
