"""Pairs of items under a claim of privacy (ours): what `fednext` and `fedease` become.

After noisy counts (`counts_first.py`) a client sends one symmetric table P, scaled to its part of
the norm: P_ij = w_i w_j times how near the heard items i and j stand in its history. "near" is
g(x) of `fednext`, with x the distance of two items; with `near = False` all pairs count alike, and
P is the Gram matrix of `fedease`.

A symmetric table has each pair twice. Both entries are divided by sqrt(2), the diagonal is not, so
that |P| is the norm of one triangle with its diagonal, and the mean of the two noisy entries has
the noise of one entry of that triangle.

All that follows is free. The server drops items that were not heard: their rows and columns hold
nothing but noise. With `shrink` it draws pairs to what counts let expect (`privacy/shrinkage.py`).
With `ridge` it solves for EASE's weights; the ridge is in units of the noise: a symmetric matrix of
I heard items whose entries have deviation s has no eigenvalue beyond about 2 s sqrt(I). A device
ranks with its own history times the table, recent items more where asked.

Which of two items came first is given up: that direction has as much noise as the pair itself, and
for budgets of 8 and less it was worth nothing on any dataset.

The settings that a claim takes were chosen by validation on four datasets. For near pairs, with
each of three left out in turn, they came out the same; `docs/results/table-privacy.md` says where
this is not so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.compiled import compiled
from tacit.core.algorithm import Bound, ClientData
from tacit.core.ragged import RaggedBatch
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.data.views import Lists
from tacit.errors import TacitError, shown
from tacit.methods.counts_first import (
    COUNTS,
    ITEM_WEIGHT,
    CountsFirst,
    scaled,
    summed_counts,
)
from tacit.methods.fednext_ragged import PairWeights, weighed_rows
from tacit.privacy.shrinkage import shrunken_pairs, symmetric

PAIRS = "pairs"

QUIET_RIDGE = 0.3  # times the mean diagonal: what a ridge has beside its part for the noise


@register("private_pairs")
@dataclass(frozen=True)
class PrivatePairs(CountsFirst):
    """Near pairs, or all pairs, from one noisy release.

    >>> method = PrivatePairs()
    >>> [method.sends(round_number) for round_number in (1, 2, 3)], method.max_rounds
    ([True, True, False], 2)
    """

    near: bool = True
    past: float = 2.0  # as in fednext
    horizon: int = 10
    shrink: bool = False
    ridge: float | None = None  # of EASE, in units of the noise; None: rank with the pairs
    column_power: float = 0.0  # of counts, that columns are divided by

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.past < math.inf or self.horizon < 1:
            raise TacitError(
                f"past is {shown(self.past)} and horizon {shown(self.horizon)}; past is a number "
                "of items above 0 and horizon at least 1."
            )
        if self.ridge is not None and not self.ridge > 0:
            raise TacitError(f"ridge is {shown(self.ridge)}; it must be above 0, or left out.")

    @property
    def reads_order(self) -> bool:
        return self.near or self.last is not None

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0, together=True)

    # What is shared

    @property
    def later_sums(self) -> frozenset[str]:
        return frozenset({PAIRS})

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {**self.counted(task), PAIRS: Initializer((task.n_items, task.n_items))}

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {ITEM_WEIGHT: shared[ITEM_WEIGHT], PAIRS: shared[PAIRS]}

    # One device

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if round_number == 1:
            return private, {COUNTS: self.counts_of(received, data)}
        if not self.sends(round_number):
            return private, {}
        same_HH = data.history_H[:, None] == data.history_H
        spoken_H = self.spoken_of(data)
        weight_H = received[ITEM_WEIGHT][data.history_H] * spoken_H
        pair_HH = weight_H[:, None] * weight_H * self._nearness(data)
        pair_HH = torch.where(same_HH, pair_HH, pair_HH / math.sqrt(2.0))
        # rows and columns of an item that stands twice fall together
        whole_HH = same_HH * spoken_H[:, None] * spoken_H
        square = ((whole_HH @ pair_HH @ whole_HH) * pair_HH).sum()
        row_HI = pair_HH.new_zeros(len(pair_HH), len(received[ITEM_WEIGHT]))
        row_HI = row_HI.index_add(1, data.history_H, pair_HH)
        return private, {PAIRS: scaled(row_HI, square, self.part_size)}

    def _nearness(self, data: ClientData) -> Tensor:
        """How near any two entries of the history stand, (H, H)."""
        if not self.near:
            return torch.ones_like(data.real_H[:, None] * data.real_H)
        assert data.order_H is not None
        order_H = data.order_H.to(data.real_H)
        distance_HH = (order_H - order_H[:, None]).abs()
        gain_HH = torch.zeros_like(distance_HH)
        for step in range(1, self.horizon + 1):
            decayed_HH = (-(distance_HH - step).clamp(min=0) / self.past).exp2() / step
            gain_HH = gain_HH + (distance_HH >= step) * decayed_HH
        return gain_HH

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        table_II = received[PAIRS]
        row_I = table_II.new_zeros(len(table_II)).index_add(0, data.history_H, data.real_H)
        return row_I @ table_II

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        return data.real_H[:, None] * received[PAIRS][data.history_H]

    # The server

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    @property
    def steps_on_gpu(self) -> bool:
        return True

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        if COUNTS in total:
            return self.heard(shared, total[COUNTS], n_clients)
        if PAIRS not in total:
            return shared
        noise = self.noise_on_sums(n_clients) / self.part_size
        return {**shared, PAIRS: self._table(total[PAIRS], noise, shared)}

    def _table(self, sum_II: Tensor, noise: float, shared: Params) -> Tensor:
        """The table that devices rank with; `noise` is that of one pair of norm 1."""
        heard_A = torch.nonzero(shared[ITEM_WEIGHT] > 0)[:, 0]
        table_AA = symmetric(sum_II[heard_A][:, heard_A]) / self.part_size
        pair_AA = (math.sqrt(2.0) * table_AA).fill_diagonal_(0.0)
        count_A = shared[COUNTS][heard_A]
        if self.shrink:
            pair_AA = shrunken_pairs(pair_AA, noise, count_A)
        if self.ridge is not None and len(heard_A):
            own_A = table_AA.diagonal()
            raised = self.ridge * noise * math.sqrt(len(heard_A)) + QUIET_RIDGE * own_A.mean()
            inverse_AA = torch.linalg.inv(pair_AA + torch.diag(own_A.clamp(min=0) + raised))
            pair_AA = (-inverse_AA / inverse_AA.diagonal()).fill_diagonal_(0.0)
        pair_AA = pair_AA * (count_A / shared[COUNTS].mean()) ** -self.column_power
        table_II = torch.zeros_like(sum_II)
        table_II[heard_A[:, None], heard_A] = pair_AA
        return table_II

    # All devices at once

    @property
    def runs_ragged(self) -> bool:
        return True

    def update_ragged(
        self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
    ) -> Params:
        if not self.sends(round_number):
            return {}
        # no client keeps anything
        history = self.ragged_spoken_of(batch.history.take(np.flatnonzero(batch.reports_P)))
        weight_I = shared[ITEM_WEIGHT].double().numpy()
        if round_number == 1:
            return {COUNTS: summed_counts(history, len(weight_I), self.count_size)}
        gain_X = np.ones(int(history.size_U.max(initial=0)) + 1)
        if self.near:
            gain_X = PairWeights.of(self.past, self.horizon, len(gain_X)).gain
        return {PAIRS: summed_pairs(history, gain_X, weight_I, self.part_size)}

    def score_ragged(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        return weighed_rows(history, 0.0, shared[PAIRS])

    # What it tells

    def interpretation(self) -> list[str]:
        pairs = "how near pairs of items stand" if self.near else "how many clients have each pair"
        return [
            "only sums of the uploads are used: under secure aggregation the server reads how often"
            f" items are taken, and {pairs}, over all clients",
            "without secure aggregation it reads a client's history",
            "what one client adds to both sums together is of Euclidean norm 1 at most",
        ]


@compiled(error_model="numpy")
def _add_pairs(start, item, gain_X, weight_I, size, place_I, table_II):  # type: ignore[no-untyped-def]
    """Each client's symmetric table of weighed pairs, scaled to `size`, added to `table_II`.

    Entries of an item that stands twice fall together; `place_I` holds -1 before and after.
    """
    for p in range(len(start) - 1):
        begin, n = start[p], start[p + 1] - start[p]
        own_HH = np.zeros((n, n))
        local_H, item_H = np.empty(n, np.int64), np.empty(n, np.int64)
        distinct = 0
        for i in range(n):
            one = item[begin + i]
            if place_I[one] < 0:
                place_I[one], item_H[distinct] = distinct, one
                distinct += 1
            local_H[i] = place_I[one]
        for i in range(n):
            for j in range(n):
                own_HH[local_H[i], local_H[j]] += gain_X[abs(i - j)]
        square = 0.0
        for a in range(distinct):
            place_I[item_H[a]] = -1
            for b in range(distinct):
                half = 1.0 if a == b else np.sqrt(0.5)
                own_HH[a, b] *= half * weight_I[item_H[a]] * weight_I[item_H[b]]
                square += own_HH[a, b] * own_HH[a, b]
        if square > 0.0:
            for a in range(distinct):
                row_I = table_II[item_H[a]]
                for b in range(distinct):
                    row_I[item_H[b]] += size / np.sqrt(square) * own_HH[a, b]


def summed_pairs(history: Lists, gain_X: np.ndarray, weight_I: np.ndarray, size: float) -> Tensor:
    """The sum over clients of P / |P|, times `size`; `gain_X` tells nearness from distance.

    >>> history, all_alike = Lists(np.array([0, 2]), np.array([1, 0])), np.ones(2)
    >>> (3 * summed_pairs(history, all_alike, np.ones(2), size=1.0).square()).tolist()
    [[1.0000000000000002, 0.5000000000000001], [0.5000000000000001, 1.0000000000000002]]
    """
    n_items = len(weight_I)
    table_II = torch.zeros((n_items, n_items), dtype=torch.float64)
    start, item, place_I = history.start_U1, history.item_N, np.full(n_items, -1)
    _add_pairs(start, item, gain_X, weight_I, size, place_I, table_II.numpy())
    return table_II
