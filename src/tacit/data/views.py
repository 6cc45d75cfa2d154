"""What each side may see: clients train on a `TrainView`, evaluators hold the `HeldOut` parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from tacit.data.dataset import Modalities
from tacit.data.interactions import counted
from tacit.errors import TacitError
from tacit.streams import HISTORY_ORDER, ragged_uniforms


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

    def __repr__(self) -> str:
        return f"Lists({len(self):,} lists, {len(self.item_N):,} items)"

    def __len__(self) -> int:
        return len(self.start_U1) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.item_N[self.start_U1[index] : self.start_U1[index + 1]]

    @property
    def size_U(self) -> np.ndarray:
        return np.diff(self.start_U1)

    @property
    def list_N(self) -> np.ndarray:
        """The index of the list that each entry stands in."""
        return np.repeat(np.arange(len(self)), self.size_U)

    def entries_of(self, indices: np.ndarray) -> np.ndarray:
        """Where the entries of some lists stand in `item_N`, list after list.

        >>> Lists(np.array([0, 2, 3]), np.array([5, 7, 9])).entries_of(np.array([1, 0])).tolist()
        [2, 0, 1]
        """
        size = self.size_U[indices]
        start = np.concatenate([[0], np.cumsum(size)])[:-1]
        return np.arange(size.sum()) + np.repeat(self.start_U1[indices] - start, size)

    def take(self, indices: np.ndarray) -> Lists:
        start = np.concatenate([[0], np.cumsum(self.size_U[indices])]).astype(np.int64)
        return Lists(start, self.item_N[self.entries_of(indices)])

    def within(self, item_C: np.ndarray) -> Lists:
        """The lists over a part of the catalogue, `item_C` in ascending order, in its own codes.

        >>> lists = Lists(np.array([0, 2, 3]), np.array([5, 7, 9]))
        >>> lists.within(np.array([7, 9]))[1].tolist()
        [1]
        """
        kept_N = self.is_within(item_C)
        count = np.concatenate([[0], np.cumsum(kept_N)])
        return Lists(count[self.start_U1], np.searchsorted(item_C, self.item_N[kept_N]))

    def is_within(self, item_C: np.ndarray) -> np.ndarray:
        """Whether each entry is one of the items `item_C`, which are in ascending order."""
        place_N = np.searchsorted(item_C, self.item_N)
        found_N = np.zeros(len(self.item_N), bool)
        inside = place_N < len(item_C)
        found_N[inside] = item_C[place_N[inside]] == self.item_N[inside]
        return found_N


@dataclass(frozen=True)
class HistoryOrder:
    """How histories are ordered, as a fact that a record can hold.

    `by` is `time` where the source has a time for every interaction, and `file` where it has not:
    then the order is that of the rows in the source. `ties` counts the entries that have the time
    of another entry of their user before them; there the split's rule decides. `shuffled` is a
    control in which the order, or that among equal times, was drawn at random.
    """

    by: Literal["time", "file", "shuffled"]
    ties: int = 0


@dataclass(frozen=True, eq=False)
class History:
    """One user's train items from the earliest to the latest, and when they were touched.

    `weight_H` says how much each item counts when a method ranks from the history; without it all
    count alike.

    >>> History(np.array([4, 2])).weights.tolist()
    [1.0, 1.0]
    """

    item_H: np.ndarray  # int64
    time_H: np.ndarray | None = None  # in the unit of the source; None: the order is not by time
    weight_H: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.item_H)

    @property
    def weights(self) -> np.ndarray:
        return np.ones(len(self.item_H)) if self.weight_H is None else self.weight_H


@dataclass(frozen=True, eq=False)
class Histories:
    """The histories of many users, packed; `histories[u]` is the history of one.

    >>> items = Lists(np.array([0, 2, 3]), np.array([5, 7, 9]))
    >>> both = Histories(items, np.array([1, 4, 2]))
    >>> both[0].time_H.tolist(), both.take(np.array([1]))[0].item_H.tolist()
    ([1, 4], [9])
    >>> both.order
    HistoryOrder(by='time', ties=0)
    """

    items: Lists
    time_N: np.ndarray | None  # packed as the items are
    shuffled: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, user: int) -> History:
        own = slice(*self.items.start_U1[user : user + 2])
        return History(self.items.item_N[own], None if self.time_N is None else self.time_N[own])

    @property
    def order(self) -> HistoryOrder:
        """What the histories are ordered by, and how many of their entries are tied in time."""
        if self.shuffled:
            return HistoryOrder("shuffled")
        if self.time_N is None:
            return HistoryOrder("file")
        user_N = self.items.list_N
        tied_N = (self.time_N[1:] == self.time_N[:-1]) & (user_N[1:] == user_N[:-1])
        return HistoryOrder("time", int(tied_N.sum()))

    def take(self, user_T: np.ndarray) -> Histories:
        """The histories of some users, in the order in which they are named."""
        time_N = self.time_N
        if time_N is not None:
            time_N = time_N[self.items.entries_of(user_T)]
        return Histories(self.items.take(user_T), time_N, self.shuffled)


@dataclass(frozen=True, eq=False)
class TrainView:
    """All that samplers and clients can see: train items, and whose randomness is whose.

    `hidden_from_negatives` is empty under the clean protocol. The papers' pools put each user's
    held-out items there, or all items that nobody has in train: they are then never drawn as
    negatives, which is a leak, and the field exists so that it is explicit, recorded and impossible
    to write by accident. `content` is what the server knows of the items; a device gets of it what
    the method's item encoder sends. Under a cold split `warm_W` names the items that exist while a
    federation trains: it plays on `existing()`, which has no others.

    `positives` keep the order of the source's rows. A method that looks at the order of a history
    asks `history(user)`, or works on `order_N` and `time_N`, packed as `positives.item_N` is.
    Without times the order is that of the rows. Rows of equal time stand as the split rule orders
    them, so that under a split by time no held-out row is earlier than a train row of its user.

    >>> lists = Lists(np.array([0, 3, 4]), np.array([7, 5, 6, 5]))
    >>> name_U = np.arange(2, dtype=np.uint64)
    >>> view = TrainView(8, lists, name_U, Lists.empty(2), time_N=np.array([9, 3, 4, 1]))
    >>> view.history(0).item_H.tolist(), view.history(0).time_H.tolist()
    ([5, 6, 7], [3, 4, 9])
    >>> view.order_N.tolist(), view.histories.order
    ([2, 0, 1, 0], HistoryOrder(by='time', ties=0))
    >>> TrainView(8, lists, name_U, Lists.empty(2)).history(0).item_H.tolist()
    [7, 5, 6]
    """

    n_items: int
    positives: Lists
    user_key_U: np.ndarray  # uint64
    hidden_from_negatives: Lists
    content: Modalities = field(default_factory=Modalities)
    warm_W: np.ndarray | None = None  # int64 codes, ascending; None: all items exist
    item_key_I: np.ndarray | None = None  # uint64; randomness of an item is its own, too
    time_N: np.ndarray | None = None  # of each entry of `positives`; None: not known for all
    latest_of_tied: Literal["first_row", "last_row"] = "last_row"  # as in SplitRule.ties
    shuffle_N: np.ndarray | None = None  # drawn for each entry: histories run by it, not by time
    place_N: np.ndarray | None = None  # of each entry in its history, where that is known: no ties

    def __post_init__(self) -> None:
        if self.time_N is not None and len(self.time_N) != len(self.positives.item_N):
            raise TacitError(
                f"There are {len(self.time_N)} times for {len(self.positives.item_N)} train "
                "interactions; give one for each of them, in the order of `positives`, or none."
            )

    def __repr__(self) -> str:
        counts = {"users": self.n_users, "items": self.n_items}
        return f"TrainView({counted(counts)}, {len(self.positives.item_N):,} interactions)"

    @property
    def n_users(self) -> int:
        return len(self.positives)

    @property
    def leaks(self) -> bool:
        return len(self.hidden_from_negatives.item_N) > 0

    def popularity_I(self) -> np.ndarray:
        """How many train interactions each item has."""
        return np.bincount(self.positives.item_N, minlength=self.n_items)

    @cached_property
    def _by_user_and_time_N(self) -> np.ndarray:
        """Where the entries of all histories stand in `positives`, each from its earliest on."""
        row_N = np.arange(len(self.positives.item_N))
        if self.shuffle_N is not None:
            return np.lexsort((self.shuffle_N, self.positives.list_N))
        if self.place_N is not None:
            return np.lexsort((self.place_N, self.positives.list_N))
        if self.time_N is None:
            return row_N
        tied_N = row_N if self.latest_of_tied == "last_row" else -row_N
        return np.lexsort((tied_N, self.time_N, self.positives.list_N))

    @cached_property
    def order_N(self) -> np.ndarray:
        """The position of each entry of `positives` in its user's history; 0 is the earliest."""
        order_N = np.empty(len(self.positives.item_N), np.int64)
        start_N = np.repeat(self.positives.start_U1[:-1], self.positives.size_U)
        order_N[self._by_user_and_time_N] = np.arange(len(order_N)) - start_N
        return order_N

    @cached_property
    def histories(self) -> Histories:
        """The train items and times of all users, each from the earliest to the latest."""
        row_N, time_N = self._by_user_and_time_N, self.time_N
        items = Lists(self.positives.start_U1, self.positives.item_N[row_N])
        times = None if time_N is None else time_N[row_N]
        return Histories(items, times, self.shuffle_N is not None)

    def shuffled(self, seed: int) -> TrainView:
        """The control without order: each history in an order that its user's own stream draws.

        Times stay where they are and items change places, so that a history still runs from its
        earliest to its latest time. Nothing else changes: `positives` and all that is drawn of them
        are the same.

        >>> lists = Lists(np.array([0, 4]), np.array([7, 5, 6, 4]))
        >>> time_N, key_U = np.array([9, 3, 4, 1]), np.arange(1, dtype=np.uint64)
        >>> view = TrainView(8, lists, key_U, Lists.empty(1), time_N=time_N).shuffled(seed=1)
        >>> view.history(0).item_H.tolist(), view.history(0).time_H.tolist(), view.positives[0][0]
        ([5, 7, 6, 4], [1, 3, 4, 9], np.int64(7))
        """
        lists = self.positives
        drawn_N = ragged_uniforms(seed, HISTORY_ORDER, self.user_key_U, lists.start_U1)
        time_N = self.time_N
        if time_N is not None:
            moved_N = np.empty_like(time_N)
            moved_N[np.lexsort((drawn_N, lists.list_N))] = time_N[self._by_user_and_time_N]
            time_N = moved_N
        return replace(self, time_N=time_N, shuffle_N=drawn_N)

    def ties_shuffled(self, seed: int) -> TrainView:
        """The control in which no order of rows decides: equal times stand in an order that is
        drawn. Histories with different times, or without any, stay as they are.

        >>> lists = Lists(np.array([0, 3]), np.array([7, 5, 6]))
        >>> time_N, key_U = np.array([9, 3, 9]), np.arange(1, dtype=np.uint64)
        >>> view = TrainView(8, lists, key_U, Lists.empty(1), time_N=time_N)
        >>> sorted({str(view.ties_shuffled(seed).history(0).item_H) for seed in range(9)})
        ['[5 6 7]', '[5 7 6]']
        """
        if self.time_N is None:
            return self
        lists = self.positives
        drawn_N = ragged_uniforms(seed, HISTORY_ORDER, self.user_key_U, lists.start_U1)
        place_N = np.empty(len(drawn_N))
        place_N[np.lexsort((drawn_N, self.time_N, lists.list_N))] = np.arange(len(drawn_N))
        return replace(self, shuffle_N=place_N)

    def rows_in_time(self, user_T: np.ndarray) -> np.ndarray:
        """Where the entries of some users' histories stand in `positives`, each from its earliest.

        >>> lists = Lists(np.array([0, 3, 4]), np.array([7, 5, 6, 5]))
        >>> key_U, time_N = np.arange(2, dtype=np.uint64), np.array([9, 3, 4, 1])
        >>> view = TrainView(8, lists, key_U, Lists.empty(2), time_N=time_N)
        >>> view.rows_in_time(np.array([1, 0])).tolist()
        [3, 1, 2, 0]
        """
        return self._by_user_and_time_N[self.positives.entries_of(user_T)]

    def history(self, user: int) -> History:
        """What a user's own device knows: its train items and their times, in order."""
        return self.histories[user]

    @classmethod
    def of_one(cls, history: History, n_items: int, key: int) -> TrainView:
        """The view of a single person. What the person draws does not depend on the order in which
        the items are given: `positives` are in the order of their codes.

        >>> view = TrainView.of_one(History(np.array([5, 2, 7])), n_items=8, key=1)
        >>> view.positives[0].tolist(), view.history(0).item_H.tolist()
        ([2, 5, 7], [5, 2, 7])
        >>> tied = History(np.array([5, 2, 7]), time_H=np.array([1, 1, 1]))
        >>> TrainView.of_one(tied, n_items=8, key=1).history(0).item_H.tolist()
        [5, 2, 7]
        """
        by_code_H = np.argsort(history.item_H, kind="stable")
        when_H = None if history.time_H is None else history.time_H[by_code_H]
        items = np.ascontiguousarray(history.item_H[by_code_H], dtype=np.int64)
        lists = Lists(np.array([0, len(items)]), items)
        key_1 = np.array([key], dtype=np.uint64)
        return cls(n_items, lists, key_1, Lists.empty(1), time_N=when_H, place_N=by_code_H)

    def take(self, user_T: np.ndarray) -> TrainView:
        """The view of some users, in the order in which they are named.

        >>> lists = Lists(np.array([0, 2, 3]), np.array([4, 6, 5]))
        >>> view = TrainView(8, lists, np.arange(2, dtype=np.uint64), Lists.empty(2))
        >>> moved = view.take(np.array([1, 0]))
        >>> moved.positives[1].tolist(), moved.user_key_U.tolist()
        ([4, 6], [1, 0])
        """
        entry_N = self.positives.entries_of(user_T)
        return replace(
            self,
            positives=self.positives.take(user_T),
            user_key_U=self.user_key_U[user_T],
            hidden_from_negatives=self.hidden_from_negatives.take(user_T),
            time_N=_rows(self.time_N, entry_N),
            shuffle_N=_rows(self.shuffle_N, entry_N),
            place_N=_rows(self.place_N, entry_N),
        )

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
        there_N = self.positives.is_within(self.warm_W)
        return replace(
            self,
            n_items=len(self.warm_W),
            positives=self.positives.within(self.warm_W),
            hidden_from_negatives=self.hidden_from_negatives.within(self.warm_W),
            content=self.content.take(self.warm_W),
            warm_W=None,
            item_key_I=_rows(self.item_key_I, self.warm_W),
            time_N=_rows(self.time_N, there_N),
            shuffle_N=_rows(self.shuffle_N, there_N),
            place_N=_rows(self.place_N, there_N),
        )


def _rows(values: np.ndarray | None, chosen: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[chosen]


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

    def __repr__(self) -> str:
        counts = {"users": len(self.user_E), "held-out items": len(self.relevant.item_N)}
        return f"HeldOut({self.part}: {counted(counts)})"

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
    left_out: Lists | None = None  # items of each user that were touched and lie in no part

    def __repr__(self) -> str:
        return f"Split({self.train}, {self.valid}, {self.test})"
