"""The samples of one epoch over everybody: each user's own draws, shuffled across users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import streams
from tacit.compiled import compiled
from tacit.data.drawing import client_keys, draw_ordered
from tacit.data.sampling import Sampling, samples_per_user
from tacit.data.views import TrainView


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples in training order: who, which item, and 1 for a positive or 0.

    >>> len(Samples(np.array([0]), np.array([4]), np.array([1], np.uint8)))
    1
    """

    user_N: np.ndarray  # int64
    item_N: np.ndarray  # int64
    label_N: np.ndarray  # uint8

    def __len__(self) -> int:
        return len(self.item_N)


def draw_epoch(train: TrainView, sampling: Sampling, *, seed: int, number: int) -> Samples:
    """Everybody's positives and negatives of epoch `number` (from 1).

    Negatives come from each user's own stream with the epoch as the round: they are the ones that a
    federated client with this seed draws in that round. Only the shuffle mixes users.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1]), np.array([0, 1]), n_lists=2)
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> drawn = draw_epoch(train, Sampling(negatives=1), seed=0, number=1)
    >>> sorted(zip(drawn.user_N.tolist(), drawn.item_N.tolist(), drawn.label_N.tolist()))
    [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1)]
    """
    count_U = samples_per_user(train, sampling)
    start_U1 = np.concatenate([[0], np.cumsum(count_U)]).astype(np.int64)
    item_N = np.empty(int(start_U1[-1]), np.int64)
    label_N = np.empty(int(start_U1[-1]), np.uint8)
    positives, hidden = train.positives, train.hidden_from_negatives
    _draw(
        seed,
        number,
        sampling.redraw_code,
        train.user_key_U,
        positives.start_U1,
        positives.item_N,
        hidden.start_U1,
        hidden.item_N,
        train.n_items,
        sampling.negatives,
        start_U1,
        item_N,
        label_N,
    )
    order_N = streams.numpy_generator(seed, streams.SHUFFLE, number).permutation(len(item_N))
    user_N = np.repeat(np.arange(train.n_users), count_U)
    return Samples(user_N[order_N], item_N[order_N], label_N[order_N])


@compiled(error_model="numpy")
def _draw(  # type: ignore[no-untyped-def]
    seed,
    number,
    redraw,
    user_keys,
    positive_start,
    positive_item,
    hidden_start,
    hidden_item,
    n_items,
    n_negatives,
    start,
    out_item,
    out_label,
):
    blocked = np.zeros(n_items, np.uint8)
    for user in range(len(user_keys)):
        key, _ = client_keys(seed, number, 0, redraw, user_keys[user])
        draw_ordered(
            key,
            positive_item[positive_start[user] : positive_start[user + 1]],
            hidden_item[hidden_start[user] : hidden_start[user + 1]],
            n_items,
            n_negatives,
            out_item[start[user] : start[user + 1]],
            out_label[start[user] : start[user + 1]],
            blocked,
        )
