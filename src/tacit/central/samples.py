"""The samples of one epoch over everybody: each user's own draws, shuffled across users."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.compiled import compiled
from tacit.data.batches import Drawing, positives_of
from tacit.data.sampling import Sampling, client_keys, draw_ordered, samples_per_user
from tacit.data.views import TrainView


@dataclass(frozen=True, eq=False)
class PairSamples:
    """N samples in training order: who, which item, and 1 for a positive or 0.

    >>> len(PairSamples(np.array([0]), np.array([4]), np.array([1], np.uint8)))
    1
    """

    user_N: np.ndarray  # int64
    item_N: np.ndarray  # int64
    label_N: np.ndarray  # uint8

    def __len__(self) -> int:
        return len(self.item_N)

    @property
    def losses(self) -> int:
        """How many losses an epoch is the mean of."""
        return len(self)

    @property
    def read_M(self) -> np.ndarray:
        """The items that are read, sample after sample."""
        return self.item_N

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.user_N, self.item_N, self.label_N

    def part(self, low: int, high: int) -> PairSamples:
        """The samples from `low` up to `high`."""
        return PairSamples(*(column_N[low:high] for column_N in self.arrays))


@dataclass(frozen=True, eq=False)
class Triples:
    """N samples in training order: who, an item of theirs, and one that is not; -1 where none is
    drawn.

    >>> Triples(np.array([0]), np.array([4]), np.array([1])).read_M.tolist()
    [4, 1]
    """

    user_N: np.ndarray  # int64
    positive_N: np.ndarray  # int64
    negative_N: np.ndarray  # int64

    def __len__(self) -> int:
        return len(self.user_N)

    @property
    def losses(self) -> int:
        """How many losses an epoch is the mean of."""
        return len(self)

    @property
    def read_M(self) -> np.ndarray:
        """The items that are read, in pairs: each positive before its negative."""
        return np.stack([self.positive_N, self.negative_N], 1).ravel()

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.user_N, self.positive_N, self.negative_N

    def part(self, low: int, high: int) -> Triples:
        """The triples from `low` up to `high`."""
        return Triples(*(column_N[low:high] for column_N in self.arrays))

    def take(self, low: int, high: int, device: torch.device) -> Batch:
        """The same as tensors."""
        return Batch(*(torch.from_numpy(column_N[low:high]).to(device) for column_N in self.arrays))


@dataclass(frozen=True, eq=False)
class Batch:
    """B rows of `Triples`, where the parameters are."""

    user_B: Tensor
    positive_B: Tensor
    negative_B: Tensor

    def __len__(self) -> int:
        return len(self.user_B)

    def part(self, low: int, high: int) -> Batch:
        """The rows from `low` up to `high`."""
        columns = (self.user_B, self.positive_B, self.negative_B)
        return Batch(*(column_B[low:high] for column_B in columns))


def once(row_B: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a batch, each once, and where among them each stands. On a GPU they stay as they
    are: to wait until they are counted takes longer than to read some twice.

    >>> [found.tolist() for found in once(torch.tensor([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    if row_B.device.type != "cpu":
        return row_B, torch.arange(len(row_B), device=row_B.device)
    row_R, place_B = torch.unique(row_B, return_inverse=True)
    return row_R, place_B


def draw_pairs(train: TrainView, sampling: Sampling, *, seed: int, number: int) -> PairSamples:
    """Everybody's positives and negatives of epoch `number` (from 1).

    Negatives come from each user's own stream with the epoch as the round: they are the ones that a
    federated client with this seed draws in that round. Only the shuffle mixes users.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1]), np.array([0, 1]), n_lists=2)
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> drawn = draw_pairs(train, Sampling(negatives=1), seed=0, number=1)
    >>> sorted(zip(drawn.user_N.tolist(), drawn.item_N.tolist(), drawn.label_N.tolist()))
    [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1)]
    """
    drawn = draw_unshuffled(train, sampling, seed=seed, number=number)
    order_N = _order(len(drawn), seed, number)
    return PairSamples(*(column_N[order_N] for column_N in drawn.arrays))


def draw_triples(train: TrainView, sampling: Sampling | None, *, seed: int, number: int) -> Triples:
    """Each interaction with each of its negatives, shuffled; who has every item has no rows. The
    negatives are those that a federated client with this seed draws in round `number`. Without
    `sampling` each interaction is there once, alone.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> drawn = draw_triples(train, Sampling(negatives=1), seed=0, number=1)
    >>> drawn.user_N.tolist(), drawn.positive_N.tolist(), drawn.negative_N.tolist()
    ([0], [0], [1])
    """
    if sampling is None:
        user_N, positive_N = train.positives.list_N, train.positives.item_N
        columns = [user_N, positive_N, np.full(len(user_N), -1, np.int64)]
        order_N = _order(len(user_N), seed, number)
    else:
        size_U = train.positives.size_U
        count_U = samples_per_user(train, sampling) - size_U  # negatives
        start_U1 = np.concatenate([[0], np.cumsum(count_U)]).astype(np.int64)
        columns = [np.empty(int(start_U1[-1]), np.int64) for _ in range(3)]
        most = int(size_U.max(initial=0)) * (1 + sampling.negatives)
        drawing = Drawing.of(train, sampling, seed, number)
        if torch.get_num_threads() == 1:
            order_N = _order(int(start_U1[-1]), seed, number)
            _draw_triples(drawing, start_U1, most, *columns)
        else:  # the order does not depend on what is drawn
            with ThreadPoolExecutor(1) as pool:
                order = pool.submit(_order, int(start_U1[-1]), seed, number)
                _draw_triples(drawing, start_U1, most, *columns)
                order_N = order.result()
    return Triples(*(column_N[order_N] for column_N in columns))


def draw_unshuffled(train: TrainView, sampling: Sampling, *, seed: int, number: int) -> PairSamples:
    """The same samples user after user: each positive, in the order of `positives`, and then its
    negatives."""
    count_U = samples_per_user(train, sampling)
    start_U1 = np.concatenate([[0], np.cumsum(count_U)]).astype(np.int64)
    item_N = np.empty(int(start_U1[-1]), np.int64)
    label_N = np.empty(int(start_U1[-1]), np.uint8)
    _draw(Drawing.of(train, sampling, seed, number), start_U1, item_N, label_N)
    return PairSamples(np.repeat(np.arange(train.n_users), count_U), item_N, label_N)


def _order(count: int, seed: int, number: int) -> np.ndarray:
    return streams.numpy_generator(seed, streams.SHUFFLE, number).permutation(count)


@compiled(error_model="numpy")
def _draw(drawing, start, item_N, label_N):  # type: ignore[no-untyped-def]
    """The samples of everybody, user after user, in the order in which they are drawn."""
    blocked = np.zeros(drawing.n_items, np.uint8)
    for user in range(len(drawing.user_key_U)):
        own_N, label_own_N = item_N[start[user] :], label_N[start[user] :]
        _draw_user(drawing, user, own_N, label_own_N, blocked)


@compiled(error_model="numpy", nogil=True)
def _draw_triples(drawing, start, most, user_N, positive_N, negative_N):  # type: ignore[no-untyped-def]
    """The same, each negative beside its positive; nobody has more than `most` samples."""
    blocked = np.zeros(drawing.n_items, np.uint8)
    item_M, label_M = np.empty(most, np.int64), np.empty(most, np.uint8)
    for user in range(len(drawing.user_key_U)):
        if start[user] == start[user + 1]:
            continue
        count = _draw_user(drawing, user, item_M, label_M, blocked)
        at, positive = start[user], item_M[0]
        for sample in range(count):
            if label_M[sample]:
                positive = item_M[sample]
            else:
                user_N[at], positive_N[at], negative_N[at] = user, positive, item_M[sample]
                at += 1


@compiled(error_model="numpy")
def _draw_user(drawing, user, item_M, label_M, blocked):  # type: ignore[no-untyped-def]
    """One user's samples in the order in which they are drawn; returns how many there are."""
    start = drawing.hidden_start_U1
    key, _ = client_keys(
        drawing.seed, drawing.round_number, 0, drawing.redraw, drawing.user_key_U[user]
    )
    return draw_ordered(
        key,
        positives_of(drawing, user),
        drawing.hidden_item_N[start[user] : start[user + 1]],
        drawing.n_items,
        drawing.negatives,
        item_M,
        label_M,
        blocked,
    )
