"""Participants as kernels take them: in a fixed order, cut into chunks, each with its weight.

Chunks do not depend on the number of threads. Each chunk sums its clients' changes in a fixed order
in float64, and chunks are added in order. So one thread and many agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.core.algorithm import Exchange, Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.parts import Local
from tacit.data.batches import Drawing
from tacit.data.views import TrainView
from tacit.engines.device import each_chunk
from tacit.engines.participation import Participants, everybody
from tacit.engines.round import weights_of

# The sum over clients is kept once per chunk: memory bounds their number, threads never do.
_SUM_BYTES = 128 * 2**20
_GUIDED_CHUNKS = 64  # guidance sums nothing up


class Turns(NamedTuple):
    """Whose turn it is, chunk by chunk, and what each of them draws."""

    chunk_start_C1: np.ndarray
    user_P: np.ndarray
    weight_P: np.ndarray  # of a client's upload; 0 for one who drops out
    samples_P: np.ndarray  # in one epoch
    epochs: int
    batch: int
    share_S: np.ndarray  # 1 / size, for all sizes of a batch that occur
    drawing: Drawing


@compiled(error_model="numpy")
def most_samples(turns, chunk):  # type: ignore[no-untyped-def]
    """How many samples a client of the chunk has at most in one epoch."""
    most = 1
    for k in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        most = max(most, turns.samples_P[k])
    return most


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
    >>> from tacit.methods import fedmf
    >>> lists = Lists.from_pairs(np.array([0, 1]), np.array([2, 2]), 2)
    >>> train = TrainView(3, lists, np.array([9, 4], np.uint64), Lists.empty(2))
    >>> algorithm = compose(fedmf(dim=4), Task.of(train))
    >>> Queue.of(algorithm, train, everybody(train), np.zeros(2, np.int64)).user_P.tolist()
    [1, 0]
    """

    algorithm: ComposedAlgorithm
    train: TrainView
    user_P: np.ndarray
    reports_P: np.ndarray
    weight_P: np.ndarray
    samples_P: np.ndarray
    chunks: int

    @classmethod
    def of(
        cls,
        algorithm: ComposedAlgorithm,
        train: TrainView,
        participants: Participants,
        samples_U: np.ndarray,
    ) -> Queue:
        order_P = np.argsort(train.user_key_U[participants.user_P], kind="stable")
        user_P = participants.user_P[order_P]
        reports_P = participants.reports_P[order_P]
        weight_P = reports_P * weights_of(algorithm, train, user_P)
        chunks = chunk_count(len(user_P), algorithm.task.n_items, algorithm.table_width)
        return cls(algorithm, train, user_P, reports_P, weight_P, samples_U[user_P], chunks)

    @classmethod
    def of_everybody(
        cls, algorithm: ComposedAlgorithm, train: TrainView, samples_U: np.ndarray
    ) -> Queue:
        """All users with train interactions, for what each of them does alone."""
        user_P, reports_P = everybody(train).user_P, everybody(train).reports_P
        chunks = min(_GUIDED_CHUNKS, len(user_P))
        weight_P = reports_P.astype(np.float64)
        return cls(algorithm, train, user_P, reports_P, weight_P, samples_U[user_P], chunks)

    def turns(
        self, kind: np.dtype, seed: int, round_number: int, epochs: int | None = None
    ) -> Turns:
        """For kernels; `epochs` are those of local training, unless others are given."""
        largest = min(self._local.batch, int(self.samples_P.max(initial=1)))
        return Turns(
            np.linspace(0, len(self.user_P), self.chunks + 1).astype(np.int64),
            self.user_P,
            self.weight_P,
            self.samples_P,
            self._local.epochs if epochs is None else epochs,
            self._local.batch,
            (1.0 / np.maximum(np.arange(largest + 1), 1)).astype(kind),
            Drawing.of(self.train, self.algorithm.method.sampling, seed, round_number),
        )

    def play(self, kernel: Callable[..., None], threads: int, *arguments: object) -> None:
        """kernel(chunk, *arguments) for every chunk."""
        each_chunk(kernel, self.chunks, threads, *arguments)

    def totals(self, loss_C: np.ndarray) -> Total:
        """Sums for the server, but for the changes themselves."""
        totals = Total.zeros(self.algorithm.summed(Exchange()))
        totals.weight = float(self.weight_P.sum())
        totals.clients = int(self.reports_P.sum())
        totals.loss_sum = float(loss_C.sum())
        totals.samples = int(self.samples_P.sum()) * self._local.epochs
        return totals

    @property
    def _local(self) -> Local:
        return self.algorithm.method.local
