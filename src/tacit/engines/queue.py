"""Participants as kernels take them: in a fixed order, cut into chunks, each with its weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.compose import Algorithm
from tacit.core.parts import Local, TableRule
from tacit.data.views import TrainView
from tacit.engines.base import Totals
from tacit.engines.participation import Participants

# The sum over clients is kept once per chunk: memory bounds their number, threads never do.
_SUM_BYTES = 128 * 2**20


def chunk_count(n_clients: int, n_items: int, width: int) -> int:
    """At most 16 chunks of at least 32 clients, and no more float64 tables than fit in 128 MB.

    >>> chunk_count(943, 1682, 32), chunk_count(100, 1682, 32), chunk_count(943, 100_000, 32)
    (16, 3, 5)
    """
    return int(np.clip(_SUM_BYTES // (n_items * width * 8), 1, min(16, max(1, n_clients // 32))))


@dataclass(frozen=True, eq=False)
class Queue:
    """Who plays a round, in the order of user keys: the order in which users were listed changes
    not even a rounding. One who drops out has weight 0.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.data.views import Lists
    >>> from tacit.engines.participation import everybody
    >>> from tacit.methods import fedmf
    >>> lists = Lists.from_pairs(np.array([0, 1]), np.array([2, 2]), 2)
    >>> train = TrainView(3, lists, np.array([9, 4], np.uint64), Lists.empty(2))
    >>> algorithm = compose(fedmf(dim=4), Task.of(train))
    >>> Queue.of(algorithm, train, everybody(train), np.zeros(2, np.int64)).user_P.tolist()
    [1, 0]
    """

    algorithm: Algorithm
    train: TrainView
    user_P: np.ndarray
    reports_P: np.ndarray
    weight_P: np.ndarray
    samples_P: np.ndarray
    chunks: int

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        train: TrainView,
        participants: Participants,
        samples_U: np.ndarray,
    ) -> Queue:
        order_P = np.argsort(train.user_key_U[participants.user_P], kind="stable")
        user_P = participants.user_P[order_P]
        reports_P = participants.reports_P[order_P]
        weight_P = reports_P.astype(np.float64)
        server = algorithm.method.server
        if not isinstance(server, TableRule):
            weight_P *= [server.weight(int(n)) for n in train.positives.size_U[user_P]]
        chunks = chunk_count(len(user_P), algorithm.task.n_items, algorithm.table_width)
        return cls(algorithm, train, user_P, reports_P, weight_P, samples_U[user_P], chunks)

    def drawing(self, seed: int, round_number: int) -> tuple[Any, ...]:
        """The first arguments of every kernel: who plays, and what each of them draws."""
        sampling, local, train = self.algorithm.method.sampling, self._local, self.train
        return (
            np.linspace(0, len(self.user_P), self.chunks + 1).astype(np.int64),
            self.user_P,
            self.weight_P,
            self.samples_P,
            seed,
            round_number,
            sampling.redraw_code,
            train.user_key_U,
            train.positives.start_U1,
            train.positives.item_N,
            train.hidden_from_negatives.start_U1,
            train.hidden_from_negatives.item_N,
            self.algorithm.task.n_items,
            sampling.negatives,
            local.epochs,
            local.batch,
        )

    def shares(self, kind: np.dtype) -> np.ndarray:
        """1 / size for all sizes of a batch that occur."""
        largest = min(self._local.batch, int(self.samples_P.max(initial=1)))
        return (1.0 / np.maximum(np.arange(largest + 1), 1)).astype(kind)

    def totals(self, loss_C: np.ndarray) -> Totals:
        """Sums for the server, but for the changes themselves."""
        totals = Totals.empty(self.algorithm)
        totals.weight = float(self.weight_P.sum())
        totals.clients = int(self.reports_P.sum())
        totals.loss_sum = float(loss_C.sum())
        totals.samples = int(self.samples_P.sum()) * self._local.epochs
        return totals

    @property
    def _local(self) -> Local:
        return self.algorithm.method.local


def in_order(total_C: np.ndarray) -> np.ndarray:
    """The sum over chunks, in their order.

    >>> in_order(np.array([[1.0], [2.0]])).tolist()
    [3.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is said where it is ranked
        found = np.zeros_like(total_C[0])
        for part in total_C:
            found += part
    return found
