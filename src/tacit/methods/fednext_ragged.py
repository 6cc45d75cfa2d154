"""FedNext for all clients at once: sums over pairs of a history, without padding.

How much a pair of a history counts depends on nothing but places: on the distance of two items, or
on their places and the length. So a client's tables are sums over pairs (dense tables), or one pass
from its latest item to its earliest (narrow tables). Kernels compute in double precision.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.compiled import compiled
from tacit.core.recency import Recency
from tacit.data.views import Lists

Scale = Literal["none", "norm", "length"]

NEXT, PAST, BOTH = 0, 1, 2  # what is summed over the pairs: transitions, decayed pasts, the Gram


class PairWeights(NamedTuple):
    """How much pairs count, as tables over distances and lengths."""

    gain: np.ndarray  # (X,) of a transition over a distance x
    power: np.ndarray  # (X,) 2^(-x / half_life)
    lasting: np.ndarray  # (X,) the sum of power^2 over the first x distances

    @classmethod
    def of(cls, half_life: float, horizon: int, longest: int) -> PairWeights:
        """For histories of at most `longest` items.

        A transition over a distance of 2 with horizon 2: 1/2 of the earlier step, 1/2 of this one.

        >>> PairWeights.of(half_life=1.0, horizon=2, longest=3).gain.tolist()
        [0.0, 1.0, 1.0, 0.5, 0.25, 0.125, 0.0625]
        """
        distance_X = np.arange(longest + horizon + 2)
        power_X = Recency(half_life).of_ages(distance_X)
        gain_X = np.zeros(len(distance_X))
        for step in range(1, horizon + 1):
            gain_X[step:] += power_X[: len(power_X) - step] / step
        halving = -2.0 * np.log(2.0) / half_life
        return cls(gain_X, power_X, np.expm1(distance_X * halving) / np.expm1(halving))


@compiled(error_model="numpy")
def _weight(kind, pairs, i, j, n):  # type: ignore[no-untyped-def]
    """How much the pair of places i and j counts in a history of n items."""
    if kind == NEXT:
        return pairs.gain[j - i]  # asked for j > i alone
    if kind == PAST:
        return pairs.power[abs(i - j)] * pairs.lasting[n - 1 - max(i, j)]
    return 1.0


@compiled(error_model="numpy")
def _add_pairs(kind, pairs, start, item, factor_P, table_II):  # type: ignore[no-untyped-def]
    """The sum over clients of one kind of table, added to `table_II`."""
    for p in range(len(factor_P)):
        begin, n = start[p], start[p + 1] - start[p]
        for i in range(n):
            row_I = table_II[item[begin + i]]
            for j in range(i + 1 if kind == NEXT else 0, n):
                row_I[item[begin + j]] += factor_P[p] * _weight(kind, pairs, i, j, n)


@compiled(error_model="numpy")
def _add_squares(kind, pairs, start, item, place_I, square_P):  # type: ignore[no-untyped-def]
    """The squared norm of each client's own table, added to `square_P`.

    Entries of an item that stands twice fall together; `place_I` holds -1 before and after.
    """
    for p in range(len(square_P)):
        begin, n = start[p], start[p + 1] - start[p]
        own_HH = np.zeros((n, n))
        local_H = np.empty(n, np.int64)
        for i in range(n):
            if place_I[item[begin + i]] < 0:
                place_I[item[begin + i]] = i
            local_H[i] = place_I[item[begin + i]]
        for i in range(n):
            for j in range(i + 1 if kind == NEXT else 0, n):
                own_HH[local_H[i], local_H[j]] += _weight(kind, pairs, i, j, n)
        for i in range(n):
            place_I[item[begin + i]] = -1
        square_P[p] += (own_HH * own_HH).sum()


@compiled(error_model="numpy")
def _add_folded(pairs, horizon, history, projection_ID, backwards, norm, factor_P, sum_IE):  # type: ignore[no-untyped-def]
    """Each client's transitions times a projection, and the sums of their rows and columns.

    One pass from the latest item to the earliest: beyond the horizon a gain decays by the same
    factor with every step. `backwards` runs the other way, for transposed transitions.
    """
    start, item, place_I = history
    width = projection_ID.shape[1]
    shrink, first_far = pairs.power[1], pairs.gain[horizon + 1]
    total_X = np.cumsum(pairs.gain)
    tail_D = np.zeros(width)
    for p in range(len(factor_P)):
        begin, n = start[p], start[p + 1] - start[p]
        own_H = item[begin : begin + n]
        if backwards:
            own_H = own_H[::-1]
        row_HE = np.zeros((n, width + 2))
        tail_D[:] = 0.0
        for i in range(n - 1, -1, -1):
            row_E = row_HE[i]
            for d in range(width):
                tail_D[d] *= shrink
            if i + horizon + 1 < n:
                far_D = projection_ID[own_H[i + horizon + 1]]
                for d in range(width):
                    tail_D[d] += first_far * far_D[d]
            for d in range(width):
                row_E[d] = tail_D[d]
            for x in range(1, min(horizon, n - 1 - i) + 1):
                near_D = projection_ID[own_H[i + x]]
                for d in range(width):
                    row_E[d] += pairs.gain[x] * near_D[d]
            after, before = total_X[n - 1 - i], total_X[i]
            row_E[width] = before if backwards else after
            row_E[width + 1] = after if backwards else before
        factor = factor_P[p]
        if norm:
            for i in range(n):  # rows of an item that stands twice fall together
                first = place_I[own_H[i]]
                if first < 0:
                    place_I[own_H[i]] = i
                else:
                    row_HE[first] += row_HE[i]
                    row_HE[i] = 0.0
            for i in range(n):
                place_I[own_H[i]] = -1
            square = (row_HE * row_HE).sum()
            factor = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        for i in range(n):
            sum_E = sum_IE[own_H[i]]
            for e in range(width + 2):
                sum_E[e] += factor * row_HE[i, e]


@compiled(error_model="numpy")
def _add_weighed(start, item, power_X, table_ID, sum_BD):  # type: ignore[no-untyped-def]
    """The rows of each history's items, the latest with weight 1, added to `sum_BD`."""
    for b in range(len(sum_BD)):
        sum_D = sum_BD[b]
        for n in range(start[b], start[b + 1]):
            weight = power_X[start[b + 1] - 1 - n]
            row_D = table_ID[item[n]]
            for d in range(len(row_D)):
                sum_D[d] += weight * row_D[d]


def summed_pairs(
    kinds: dict[str, int], history: Lists, pairs: PairWeights, n_items: int, scale: Scale
) -> dict[str, Tensor]:
    """The sums over clients of square tables over all items, by name.

    >>> history = Lists(np.array([0, 2]), np.array([1, 0]))
    >>> pairs = PairWeights.of(half_life=1.0, horizon=1, longest=2)
    >>> summed_pairs({"next": NEXT}, history, pairs, 2, "none")["next"].tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    start, item = history.start_U1, history.item_N
    factor_P = lengthwise(history, scale)
    if scale == "norm":
        square_P, place_I = np.zeros(len(history)), np.full(n_items, -1)
        for kind in kinds.values():
            _add_squares(kind, pairs, start, item, place_I, square_P)
        factor_P = np.where(square_P > 0, 1.0 / np.sqrt(np.where(square_P > 0, square_P, 1.0)), 0.0)
    sums = {name: torch.zeros((n_items, n_items), dtype=torch.float64) for name in kinds}
    for name, kind in kinds.items():
        _add_pairs(kind, pairs, start, item, factor_P, sums[name].numpy())
    return sums


def summed_rows(
    history: Lists,
    pairs: PairWeights,
    horizon: int,
    projection_ID: np.ndarray,
    scale: Scale,
    backwards: bool,
) -> Tensor:
    """The sum over clients of transitions times a projection, (I, D), and two columns more: the
    sums of the rows and of the columns of the transitions."""
    n_items, width = projection_ID.shape
    sum_IE = torch.zeros((n_items, width + 2), dtype=torch.float64)
    own = (history.start_U1, history.item_N, np.full(n_items, -1))
    wide_ID = np.ascontiguousarray(projection_ID, dtype=np.float64)
    factor_P, norm = lengthwise(history, scale), scale == "norm"
    _add_folded(pairs, horizon, own, wide_ID, backwards, norm, factor_P, sum_IE.numpy())
    return sum_IE


def lengthwise(history: Lists, scale: Scale) -> np.ndarray:
    """What each client multiplies its tables by, where that depends on its length alone."""
    size_P = history.size_U
    return 1.0 / np.maximum(size_P - 1, 1) if scale == "length" else np.ones(len(size_P))


def weighed_rows(history: Lists, decay: float, table_ID: Tensor) -> Tensor:
    """The sum of the rows of each history, (B, D); a weight halves with every 1 / `decay` items.

    >>> history, table_ID = Lists(np.array([0, 2]), np.array([0, 1])), torch.eye(2)
    >>> weighed_rows(history, 1.0, table_ID).tolist()
    [[0.5, 1.0]]
    """
    longest = int(history.size_U.max(initial=0))
    power_X = torch.from_numpy(np.exp2(-decay * np.arange(longest + 1))).to(table_ID)
    sum_BD = table_ID.new_zeros(len(history), table_ID.shape[1])
    start, item = history.start_U1, history.item_N
    _add_weighed(start, item, power_X.numpy(), table_ID.contiguous().numpy(), sum_BD.numpy())
    return sum_BD
