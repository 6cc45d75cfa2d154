"""What each side may see: clients train on a `TrainView`, evaluators hold the `HeldOut` parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tacit.data.dataset import Modalities


@dataclass(frozen=True, eq=False)
class Lists:
    """One list of items per user, packed: list u is `item_N[start_U1[u] : start_U1[u + 1]]`.

    >>> lists = Lists.from_pairs(np.array([1, 0, 1]), np.array([7, 5, 6]), n_lists=3)
    >>> [lists[u].tolist() for u in range(3)]
    [[5], [7, 6], []]
    """

    start_U1: np.ndarray  # int64, one longer than there are lists
    item_N: np.ndarray  # int64

    @classmethod
    def from_pairs(cls, list_N: np.ndarray, item_N: np.ndarray, n_lists: int) -> Lists:
        """Group items by list; the order of pairs is kept within a list."""
        order = np.argsort(list_N, kind="stable")
        start_U1 = np.zeros(n_lists + 1, dtype=np.int64)
        np.cumsum(np.bincount(list_N, minlength=n_lists), out=start_U1[1:])
        return cls(start_U1, np.ascontiguousarray(item_N[order], dtype=np.int64))

    @classmethod
    def empty(cls, n_lists: int) -> Lists:
        return cls(np.zeros(n_lists + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.start_U1) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.item_N[self.start_U1[index] : self.start_U1[index + 1]]

    @property
    def size_U(self) -> np.ndarray:
        return np.diff(self.start_U1)

    def take(self, indices: np.ndarray) -> Lists:
        size = self.size_U[indices]
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        offset = np.repeat(self.start_U1[indices] - start[:-1], size)
        return Lists(start, self.item_N[np.arange(start[-1]) + offset])

    def within(self, item_C: np.ndarray) -> Lists:
        """The lists over a part of the catalogue, `item_C` in ascending order, in its own codes.

        >>> lists = Lists(np.array([0, 2, 3]), np.array([5, 7, 9]))
        >>> lists.within(np.array([7, 9]))[1].tolist()
        [1]
        """
        place_N = np.searchsorted(item_C, self.item_N)
        kept_N = np.zeros(len(self.item_N), bool)
        inside = place_N < len(item_C)
        kept_N[inside] = item_C[place_N[inside]] == self.item_N[inside]
        count = np.concatenate([[0], np.cumsum(kept_N)])
        return Lists(count[self.start_U1], place_N[kept_N])


@dataclass(frozen=True, eq=False)
class TrainView:
    """All that samplers and clients can see: train items, and whose randomness is whose.

    `hidden_from_negatives` is empty under the clean protocol. The papers' pools put each user's
    held-out items there, or all items that nobody has in train: they are then never drawn as
    negatives, which is a leak, and the field exists so that it is explicit, recorded and impossible
    to write by accident. `content` is what the server knows of the items; a device gets of it what
    the method's item encoder sends. Under a cold split `warm_W` names the items that exist while a
    federation trains: it plays on `existing()`, which has no others.
    """

    n_items: int
    positives: Lists
    user_key_U: np.ndarray  # uint64
    hidden_from_negatives: Lists
    content: Modalities = field(default_factory=Modalities)
    warm_W: np.ndarray | None = None  # int64 codes, ascending; None: all items exist
    item_key_I: np.ndarray | None = None  # uint64; randomness of an item is its own, too

    @property
    def n_users(self) -> int:
        return len(self.positives)

    @property
    def leaks(self) -> bool:
        return len(self.hidden_from_negatives.item_N) > 0

    def popularity_I(self) -> np.ndarray:
        """How many train interactions each item has."""
        return np.bincount(self.positives.item_N, minlength=self.n_items)

    def existing(self) -> TrainView:
        """The view of the items that exist in training, with codes of their own: an item that does
        not exist yet cannot be drawn, trained or paid for.

        >>> lists = Lists(np.array([0, 2]), np.array([1, 3]))
        >>> some = {"warm_W": np.array([1, 3])}
        >>> view = TrainView(5, lists, np.zeros(1, np.uint64), Lists.empty(1), **some)
        >>> view.existing().n_items, view.existing().positives[0].tolist()
        (2, [0, 1])
        """
        if self.warm_W is None:
            return self
        return TrainView(
            len(self.warm_W),
            self.positives.within(self.warm_W),
            self.user_key_U,
            self.hidden_from_negatives.within(self.warm_W),
            self.content.take(self.warm_W),
            item_key_I=None if self.item_key_I is None else self.item_key_I[self.warm_W],
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One held-out part (validation or test): E evaluated users and their held-out items.

    `relevant`, `masked` and `sampled` have one list per evaluated user, in the order of `user_E`:
    the held-out items, the items taken out of the full ranking, and the sampled candidates. Where
    only some items of the catalogue are candidates at all, `among_C` has their codes.
    """

    part: Literal["valid", "test"]
    n_items: int
    user_E: np.ndarray  # int64 codes
    relevant: Lists
    masked: Lists
    sampled: Lists
    among_C: np.ndarray | None = None  # int64, ascending

    @property
    def n_candidates(self) -> int:
        """How many items can be ranked, before a user's own are taken out."""
        return self.n_items if self.among_C is None else len(self.among_C)


@dataclass(frozen=True, eq=False)
class Split:
    """The three views of one dataset under one protocol, and the counts that a report prints."""

    train: TrainView
    valid: HeldOut
    test: HeldOut
    counts: Mapping[str, int] = field(default_factory=dict)
