"""Small synthetic datasets with a known answer: one that anybody must learn, one that nobody
can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit import streams
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.interactions import Interactions


def checkerboard(n_users: int = 80, n_items: int = 40, seed: int = 0) -> Dataset:
    """Even users like even items, odd users odd ones, each user all of them.

    The two latest items are held out, so the withheld item belongs at the top of the ranking: it is
    the only unknown item of the user's colour.

    >>> dataset = checkerboard()
    >>> dataset.interactions.counts
    {'users': 80, 'items': 40, 'interactions': 1600}
    """
    generator = streams.numpy_generator(seed, streams.SYNTHETIC, 1)
    users: list[str] = []
    items: list[str] = []
    for user in range(n_users):
        chosen = generator.permutation(np.arange(user % 2, n_items, 2))
        users += [f"u{user}"] * len(chosen)
        items += [f"i{item}" for item in chosen]
    return Dataset("checkerboard", Interactions.from_ids(users, items, time=np.arange(len(users))))


def noise(n_users: int = 400, n_items: int = 200, history: int = 20, seed: int = 0) -> Dataset:
    """Every user touches items at random, independently: there is nothing to learn.

    >>> noise(n_users=50, n_items=30, history=5).interactions.counts
    {'users': 50, 'items': 30, 'interactions': 250}
    """
    generator = streams.numpy_generator(seed, streams.SYNTHETIC, 2)
    users = np.repeat(np.arange(n_users), history)
    items = np.concatenate([generator.permutation(n_items)[:history] for _ in range(n_users)])
    return Dataset("noise", Interactions.from_ids(users, items, time=np.arange(len(users))))


def with_content(dataset: Dataset, seed: int = 0) -> Dataset:
    """The same dataset with two modalities that say nothing; a third of the items has no image.

    >>> {name: table.value_IF.shape for name, table in with_content(ragged()).modalities.items()}
    {'text': (50, 6), 'image': (50, 4)}
    """
    generator = streams.numpy_generator(seed, streams.SYNTHETIC, 4)
    count = dataset.interactions.n_items
    text_IF = generator.normal(size=(count, 6)).astype(np.float32)
    image_IF = generator.normal(size=(count, 4)).astype(np.float32)
    seen_I = np.arange(count) % 3 > 0
    image_IF[~seen_I] = 0
    tables = {
        "text": FeatureTable(text_IF, np.ones(count, dtype=bool)),
        "image": FeatureTable(image_IF, seen_I),
    }
    return replace(dataset, modalities=Modalities(tables))


def ragged(n_users: int = 24, n_items: int = 50, seed: int = 0) -> Dataset:
    """Histories of very different lengths, one of them nearly the whole catalogue.

    >>> sizes = np.bincount(ragged().interactions.user_N)
    >>> int(sizes.min()), int(sizes.max())
    (3, 46)
    """
    generator = streams.numpy_generator(seed, streams.SYNTHETIC, 3)
    sizes = generator.integers(3, n_items // 2, n_users)
    sizes[0], sizes[1] = 3, n_items - 4
    users = np.repeat(np.arange(n_users), sizes)
    items = np.concatenate([generator.permutation(n_items)[:size] for size in sizes])
    return Dataset("ragged", Interactions.from_ids(users, items, time=np.arange(len(users))))
