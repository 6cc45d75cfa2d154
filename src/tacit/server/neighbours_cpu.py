"""Sums over neighbours in a dense graph, for every user at once, compiled.

A graph that links half of all pairs is no sparse matrix, but a matrix of zeros and ones: of seven
users only 128 sums are possible. They are made once for some columns, each by one addition, and
every user picks its own: one addition instead of seven multiplications and additions.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled

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
