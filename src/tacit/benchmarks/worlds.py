"""Train views of any size for benchmarks: real ML-100K where it lies, synthetic ones otherwise."""

from __future__ import annotations

import numpy as np

from tacit.data.load import load
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.errors import TacitError


def synthetic_train(n_interactions: int, history: int = 100, n_items: int = 3709) -> TrainView:
    """Users with `history` distinct items each; the number of items is prime, so that a walk of any
    stride visits distinct items.

    >>> train = synthetic_train(1000)
    >>> train.n_users, len(set(train.positives[3].tolist()))
    (10, 100)
    """
    n_users = n_interactions // history
    generator = np.random.default_rng(0)
    start_U1 = generator.integers(n_items, size=(n_users, 1))
    stride_U1 = generator.integers(1, n_items, size=(n_users, 1))
    item_UH = (start_U1 + stride_U1 * np.arange(history)) % n_items
    return TrainView(
        n_items,
        Lists(np.arange(n_users + 1) * history, item_UH.reshape(-1)),
        np.arange(n_users, dtype=np.uint64),
        Lists.empty(n_users),
    )


def ml_100k_train() -> tuple[str, TrainView]:
    """ML-100K's train view, or a synthetic world of its size where the data is not at hand."""
    try:
        return "ML-100K", split_dataset(load("ml-100k"), CLEAN).train
    except TacitError:
        return "synthetic, of ML-100K's size", synthetic_train(98_000, 104, 1699)
