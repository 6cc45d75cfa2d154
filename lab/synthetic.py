"""Train views of any size for speed: real ML-100K where it lies, synthetic datasets otherwise."""

from __future__ import annotations

import numpy as np

from tacit.data.dataset import FeatureTable, Modalities
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
    """ML-100K's train view, or a synthetic dataset of its size where the data is not at hand."""
    try:
        return "ML-100K", split_dataset(load("ml-100k"), CLEAN).train
    except TacitError:
        return "synthetic, of ML-100K's size", synthetic_train(98_000, 104, 1699)


def movie_sized_train(
    n_users: int = 15_908, n_items: int = 2_528, n_interactions: int = 111_091, width: int = 512
) -> TrainView:
    """A dataset of the size of NineRec's Movie, two modalities included: popular items are Zipf's,
    histories have at least three items and a long tail, content is noise.

    >>> train = movie_sized_train(20, 50, 140, 4)
    >>> len(train.positives.item_N), int(train.positives.size_U.min()) >= 3
    (140, True)
    """
    generator = np.random.default_rng(0)
    share_U = generator.pareto(2.0, n_users)
    more = generator.choice(n_users, n_interactions - 3 * n_users, p=share_U / share_U.sum())
    size_U = np.minimum(3 + np.bincount(more, minlength=n_users), n_items // 4)
    while (left := n_interactions - int(size_U.sum())) > 0:  # what was over the longest allowed
        size_U[:left] += 1
    chance_I = 1.0 / np.arange(5, n_items + 5)
    chance_I /= chance_I.sum()
    items = [generator.choice(n_items, size, replace=False, p=chance_I) for size in size_U]
    content = {
        name: FeatureTable(
            generator.normal(size=(n_items, width)).astype(np.float32), np.ones(n_items, bool)
        )
        for name in ("text", "image")
    }
    return TrainView(
        n_items,
        Lists.from_pairs(np.repeat(np.arange(n_users), size_U), np.concatenate(items), n_users),
        np.arange(n_users, dtype=np.uint64),
        Lists.empty(n_users),
        Modalities(content),
    )
