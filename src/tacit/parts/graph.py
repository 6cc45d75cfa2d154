"""GPFedRec's server: a graph of users over their item tables, and a table for each user from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.compiled import compiled
from tacit.core.parts import Aggregated, TableRule
from tacit.core.registry import register
from tacit.core.types import ITEMS, OWN_ITEMS, Initializer, Params
from tacit.errors import TacitError
from tacit.parts.sync import GUIDE

# Sums over neighbours in a dense graph, for every user at once, compiled.
#
# A graph that links half of all pairs is no sparse matrix, but a matrix of zeros and ones: of seven
# users only 128 sums are possible. They are made once for some columns, each by one addition, and
# every user picks its own: one addition instead of seven multiplications and additions.

_BITS = 7  # users of a group: as many sums as it takes are still fewer than there are users
_GROUPS = 4  # whose sums are held at a time
_COLUMNS = 64  # at a time: the sums of four groups stay in the second cache
_WIDE = 4096  # columns of a matrix product


def products(table_UF: np.ndarray, user_P: np.ndarray) -> np.ndarray:
    """The inner products of some users' tables, pair by pair.

    >>> products(np.array([[1.0, 2.0], [9.0, 9.0], [0.0, 3.0]]), np.array([0, 2])).tolist()
    [[5.0, 6.0], [6.0, 9.0]]
    """
    product_PP = np.zeros((len(user_P), len(user_P)), table_UF.dtype)
    for low in range(0, table_UF.shape[1], _WIDE):
        part_PF = table_UF[:, low : low + _WIDE].take(user_P, axis=0)
        product_PP += part_PF @ part_PF.T  # numpy sees the symmetry, and makes half of it
    return product_PP


def mean_changes(
    linked_PP: np.ndarray,
    user_P: np.ndarray,
    table_UF: np.ndarray,
    start_F: np.ndarray,
    layers: int,
    guide_UF: np.ndarray,
) -> np.ndarray:
    """Writes start + the mean of its neighbours' changes for every user of `user_P` to `guide_UF`,
    and returns the mean of that over users.

    With more `layers` the message is passed on so many times. Every user must have a neighbour.

    >>> linked, guide = np.array([[True, True], [False, True]]), np.zeros((2, 1))
    >>> tables = np.array([[1.0], [3.0]])
    >>> mean_changes(linked, np.array([0, 1]), tables, np.zeros(1), 1, guide).tolist()
    [2.5]
    >>> guide.tolist()
    [[2.0], [3.0]]
    """
    users, together = len(linked_PP), _BITS * _GROUPS
    share_P = (1.0 / linked_PP.sum(1)).astype(table_UF.dtype)
    # a number for each group of users: which of them are linked
    linked_PX = np.pad(linked_PP, ((0, 0), (0, -users % together)))
    code_PG = linked_PX.reshape(users, -1, _BITS) @ (1 << np.arange(_BITS))
    code_GP = np.ascontiguousarray(code_PG.T.astype(np.uint8))
    mean_F = np.empty_like(start_F)
    _pass_on(code_GP, share_P, user_P, table_UF, start_F, layers, guide_UF, mean_F)
    return mean_F


@compiled(error_model="numpy")
def _pass_on(code_GP, share_P, user_P, table_UF, start_F, layers, guide_UF, mean_F):  # type: ignore[no-untyped-def]
    users, columns = len(user_P), table_UF.shape[1]
    groups = len(code_GP)
    change = np.zeros((groups * _BITS, _COLUMNS), table_UF.dtype)  # padded by users at rest
    total = np.empty((users, _COLUMNS), table_UF.dtype)
    sums = np.zeros((_GROUPS, 1 << _BITS, _COLUMNS), table_UF.dtype)
    mean = np.empty(_COLUMNS)
    for low in range(0, columns, _COLUMNS):
        width = min(_COLUMNS, columns - low)
        here = start_F[low : low + width]
        for user in range(users):
            row, table = change[user], table_UF[user_P[user], low : low + width]
            for f in range(width):
                row[f] = table[f] - here[f]
        for _ in range(layers):
            total[:] = 0
            for group in range(0, groups, _GROUPS):
                for g in range(_GROUPS):
                    _all_sums(change, (group + g) * _BITS, sums[g])
                _pick(code_GP[group : group + _GROUPS], sums, total)
            for user in range(users):
                row, share, summed = change[user], share_P[user], total[user]
                for f in range(_COLUMNS):
                    row[f] = share * summed[f]
        mean[:] = 0
        for user in range(users):
            row, guide = change[user], guide_UF[user_P[user], low : low + width]
            for f in range(width):
                mean[f] += row[f]
                guide[f] = here[f] + row[f]
        for f in range(width):
            mean_F[low + f] = here[f] + mean[f] / users


@compiled(error_model="numpy")
def _all_sums(change, first, sums):  # type: ignore[no-untyped-def]
    """sums[code] = the sum of the rows of `change` whose bits the code has."""
    for bit in range(_BITS):
        row = change[first + bit]
        for code in range(1 << bit):
            without, with_it = sums[code], sums[(1 << bit) + code]
            for f in range(_COLUMNS):
                with_it[f] = without[f] + row[f]


@compiled(error_model="numpy")
def _pick(code_QP, sums, total):  # type: ignore[no-untyped-def]
    """Every user adds the sums of its own neighbours among the groups."""
    for user in range(len(total)):
        one, two = sums[0, code_QP[0, user]], sums[1, code_QP[1, user]]
        three, four = sums[2, code_QP[2, user]], sums[3, code_QP[3, user]]
        row = total[user]
        for f in range(_COLUMNS):
            row[f] += (one[f] + two[f]) + (three[f] + four[f])


# The same sums as matrix products, for tables on a device made for those.

# columns at a time: the copy of some users' columns stays small beside the tables
_WIDE_ON_DEVICE = 1 << 16


def products_on_device(table_UF: Tensor, user_P: Tensor) -> Tensor:
    """The inner products of some users' tables, pair by pair.

    >>> tables = torch.tensor([[1.0, 2.0], [9.0, 9.0], [0.0, 3.0]])
    >>> products_on_device(tables, torch.tensor([0, 2])).tolist()
    [[5.0, 6.0], [6.0, 9.0]]
    """
    product_PP = table_UF.new_zeros(len(user_P), len(user_P))
    for part_UF in table_UF.split(_WIDE_ON_DEVICE, dim=1):
        part_PF = part_UF[user_P]
        product_PP.addmm_(part_PF, part_PF.T)
    return product_PP


def mean_changes_on_device(
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
    >>> users, start = torch.tensor([0, 1]), torch.zeros(1)
    >>> mean_changes_on_device(linked, users, tables, start, 1, guide).tolist()
    [2.5]
    >>> guide.tolist()
    [[2.0], [3.0]]
    """
    linked_PP = linked_PP.to(table_UF)
    share_PP = linked_PP / linked_PP.sum(1, keepdim=True)
    mean_F = torch.empty_like(start_F)
    for low in range(0, table_UF.shape[1], _WIDE_ON_DEVICE):
        here = slice(low, low + _WIDE_ON_DEVICE)
        change_PF = table_UF[:, here][user_P] - start_F[here]
        for _ in range(layers):
            change_PF = share_PP @ change_PF
        guide_UF[:, here][user_P] = start_F[here] + change_PF
        mean_F[here] = start_F[here] + change_PF.mean(0)
    return mean_F


# GPFedRec's server: a graph of users over their item tables, and a table for each user from it.


@register("graph_mean")
@dataclass(frozen=True)
class GraphMean(TableRule):
    """r_u = mean of the tables of u's neighbours, `layers` times; G = mean of all r_u.

    u and v are neighbours where the cosine of their flattened tables exceeds `threshold` times the
    mean of the whole similarity matrix; a user is its own neighbour by the same rule, and has only
    itself where nobody is left. With `neighbours` they are that many most similar ones instead.
    `similarity="distance"` is the released code by its right name: 1 − cosine taken for a
    similarity, which links the most different users and never a user to itself.

    >>> sorted(GraphMean().downloads(Initializer((10, 4))))
    ['items', 'items.guide']
    """

    threshold: float = 1.0
    similarity: Literal["cosine", "distance"] = "cosine"
    neighbours: int | None = None
    layers: int = 1

    in_place = True

    def __post_init__(self) -> None:
        if self.neighbours is not None and self.neighbours < 1:
            raise TacitError(f"server.neighbours is {self.neighbours}; it must be at least 1.")
        if self.layers < 1:
            raise TacitError(f"server.layers is {self.layers}; it must be at least 1.")

    def private(self, table: Initializer) -> dict[str, Initializer]:
        return {GUIDE: replace(table, same=True, like=ITEMS)}

    def downloads(self, table: Initializer) -> dict[str, Initializer]:
        return {ITEMS: table, **self.private(table)}

    def links(self, similarity_PP: Tensor) -> Tensor:
        """The graph: who is a neighbour of whom; nobody is without one."""
        size = len(similarity_PP)
        if self.neighbours is not None:
            nearest = similarity_PP.topk(min(self.neighbours, size), dim=1).indices
            linked_PP = torch.zeros_like(similarity_PP, dtype=torch.bool).scatter_(1, nearest, True)
        else:
            linked_PP = similarity_PP > self.threshold * similarity_PP.mean()
        alone_P = ~linked_PP.any(1)
        linked_PP[alone_P, alone_P] = True
        return linked_PP

    def weights(self, similarity_PP: Tensor) -> Tensor:
        """Each row has equal weights on the user's neighbours, and sums to 1."""
        linked_PP = self.links(similarity_PP).to(similarity_PP)
        return linked_PP / linked_PP.sum(1, keepdim=True)

    def similarity_of(self, flat_PF: Tensor) -> Tensor:
        return self._similarity(flat_PF, torch.arange(len(flat_PF)))

    def _similarity(self, flat_UF: Tensor, user_P: Tensor) -> Tensor:
        if flat_UF.device.type == "cpu":
            product_PP = torch.from_numpy(products(flat_UF.numpy(), user_P.numpy()))
        else:
            product_PP = products_on_device(flat_UF, user_P)
        norm_P = product_PP.diagonal().sqrt().clamp(min=1e-30)
        cosine_PP = product_PP / (norm_P[:, None] * norm_P)
        return cosine_PP if self.similarity == "cosine" else 1 - cosine_PP

    def aggregate_tables(
        self, table_PID: Tensor, shared: Params, generator: np.random.Generator
    ) -> Aggregated:
        private = {OWN_ITEMS: table_PID, GUIDE: torch.empty_like(table_PID)}
        parameters = self.aggregate_in_place(
            private, torch.arange(len(table_PID)), shared, generator
        )
        return Aggregated(parameters, {GUIDE: private[GUIDE]})

    def aggregate_in_place(
        self, private: Params, user_P: Tensor, shared: Params, generator: np.random.Generator
    ) -> Params:
        flat_UF, guide_UF = private[OWN_ITEMS].flatten(1), private[GUIDE].flatten(1)
        linked_PP = self.links(self._similarity(flat_UF, user_P))
        start_F = shared[ITEMS].flatten()
        # of changes and not of tables: where nobody moved, nothing moves by a rounding
        if flat_UF.device.type == "cpu":
            global_F = torch.from_numpy(
                mean_changes(
                    linked_PP.numpy(),
                    user_P.numpy(),
                    flat_UF.numpy(),
                    start_F.numpy(),
                    self.layers,
                    guide_UF.numpy(),
                )
            )
        else:
            global_F = mean_changes_on_device(
                linked_PP, user_P, flat_UF, start_F, self.layers, guide_UF
            )
        return {ITEMS: global_F.view_as(shared[ITEMS])}
