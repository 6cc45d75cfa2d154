"""Training samples of one client: its positives, drawn negatives, and their order.

Samples come from a `TrainView` and nothing else. A draw is a pure function of (seed, round, epoch,
user key), so it is the same alone on a device or in a block; engines that draw inside their own
kernels call the same `client_keys` and `draw_client`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.compiled import compiled
from tacit.data.drawing import (
    REDRAW_CODES,
    block,
    client_keys,
    draw_client,
    draw_ordered,
    unblock,
)
from tacit.data.views import TrainView
from tacit.errors import TacitError, nearest, shown

_compiled = compiled(error_model="numpy")
MOST_NEGATIVES = 1_000_000  # per positive; more than the largest catalogues have items to draw


@dataclass(frozen=True)
class Sampling:
    """How many negatives stand beside each positive, and how often they are drawn anew.

    `round`: in each round, reused by its epochs; `epoch`: in each local epoch; `once`: never again.

    >>> Sampling().negatives, Sampling(redraw="epoch").redraw_code
    (4, 1)
    """

    negatives: int = 4
    redraw: Literal["round", "epoch", "once"] = "round"

    def __post_init__(self) -> None:
        if not 0 <= self.negatives <= MOST_NEGATIVES:
            raise TacitError(
                f"negatives is {shown(self.negatives)}; use 0 or more per positive, and at most "
                f"{MOST_NEGATIVES}."
            )
        if self.redraw not in REDRAW_CODES:
            raise TacitError(
                f"Unknown redraw {self.redraw!r}: {nearest(self.redraw, REDRAW_CODES)}"
            )

    @property
    def redraw_code(self) -> int:
        return REDRAW_CODES[self.redraw]


@_compiled
def _pool_sizes(start, items, hidden_start, hidden_items, n_items):  # type: ignore[no-untyped-def]
    blocked = np.zeros(n_items, np.uint8)
    n_users = len(start) - 1
    pool_U = np.empty(n_users, np.int64)
    for user in range(n_users):
        positives = items[start[user] : start[user + 1]]
        hidden = hidden_items[hidden_start[user] : hidden_start[user + 1]]
        pool_U[user] = n_items - block(positives, blocked)
        pool_U[user] -= block(hidden, blocked)
        unblock(positives, blocked)
        unblock(hidden, blocked)
    return pool_U


@compiled(nogil=True, error_model="numpy")
def _count_rounds(  # type: ignore[no-untyped-def]
    seed,
    round_R,
    epochs,
    redraw_code,
    users,
    present_RU,
    start,
    items,
    hidden_start,
    hidden_items,
    user_key_U,
    n_negatives,
    code_W,
    most,
    count_BI,
):
    """Draw all rounds of some users again; an item counts once for each round that drew it."""
    n_items = len(code_W)
    out_item, out_label = np.empty(most, np.int64), np.empty(most, np.uint8)
    blocked = np.zeros(n_items, np.uint8)
    last_W = np.full(n_items, -1, np.int64)  # the last (user, round) that drew the item
    for b in range(len(users)):
        user = users[b]
        positives = items[start[user] : start[user + 1]]
        hidden = hidden_items[hidden_start[user] : hidden_start[user + 1]]
        for r in range(len(round_R)):
            if (present_RU[r, user >> 3] >> (7 - (user & 7))) & 1 == 0:
                continue
            this = b * len(round_R) + r
            for epoch in range(epochs):
                key, _ = client_keys(seed, round_R[r], epoch, redraw_code, user_key_U[user])
                n = draw_ordered(
                    key, positives, hidden, n_items, n_negatives, out_item, out_label, blocked
                )
                for sample in range(n):
                    item = out_item[sample]
                    if out_label[sample] == 0 and last_W[item] != this:
                        last_W[item] = this
                        count_BI[b, code_W[item]] += 1


def samples_per_user(train: TrainView, sampling: Sampling) -> np.ndarray:
    """How many samples each user has per epoch: positives * (1 + negatives there is room for).

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 2]), n_lists=2)
    >>> train = TrainView(3, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> samples_per_user(train, Sampling(negatives=2)).tolist()
    [4, 3]
    """
    pool_U = _pool_sizes(*_columns(train), train.n_items)
    return np.asarray(train.positives.size_U * (1 + np.minimum(sampling.negatives, pool_U)))


def draw_samples(
    train: TrainView, user: int, sampling: Sampling, *, seed: int, round_number: int, epoch: int
) -> tuple[np.ndarray, np.ndarray]:
    """The samples of one client in training order: item codes, and 1 for positive or 0.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 0]), np.array([0, 1]), n_lists=1)
    >>> train = TrainView(4, lists, np.array([5], np.uint64), Lists.empty(1))
    >>> item_N, label_N = draw_samples(train, 0, Sampling(2), seed=0, round_number=1, epoch=0)
    >>> sorted(zip(item_N.tolist(), label_N.tolist()))
    [(0, 1), (1, 1), (2, 0), (2, 0), (3, 0), (3, 0)]
    """
    _refuse_other_views(train)
    positives, hidden = train.positives[user], train.hidden_from_negatives[user]
    most = len(positives) * (1 + sampling.negatives)
    item_N, label_N = np.empty(most, np.int64), np.empty(most, np.uint8)
    user_key = train.user_key_U[user]
    negative_key, shuffle_key = client_keys(
        seed, round_number, epoch, sampling.redraw_code, user_key
    )
    blocked = np.zeros(train.n_items, np.uint8)
    n = draw_client(
        np.uint64(negative_key),
        np.uint64(shuffle_key),
        positives,
        hidden,
        train.n_items,
        sampling.negatives,
        item_N,
        label_N,
        blocked,
    )
    return item_N[:n], label_N[:n]


@dataclass(frozen=True, eq=False)
class DrawnNegatives:
    """What users drew as negatives in some rounds, drawn again for the users that are asked for.

    Users by items, for all users at once, is an array that fits no machine; a block of users is
    replayed on its own, and of the rounds nothing is kept but one bit per user: who took part.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1]), np.array([0, 1]), n_lists=2)
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> rounds = [(1, np.array([0])), (2, np.array([0, 1]))]
    >>> drawn = DrawnNegatives.of(train, Sampling(1), seed=0, rounds=rounds, epochs=1)
    >>> drawn.rounds_BI(np.array([0, 1])).tolist()
    [[0, 2], [1, 0]]
    """

    train: TrainView
    sampling: Sampling
    seed: int
    epochs: int
    round_R: np.ndarray  # int64
    present_RU: np.ndarray  # uint8, eight users to a byte: who took part in a round
    code_W: np.ndarray  # int64: the items of the view in the catalogue that is ranked
    n_items: int  # of that catalogue

    @classmethod
    def of(
        cls,
        train: TrainView,
        sampling: Sampling,
        *,
        seed: int,
        rounds: Iterable[tuple[int, np.ndarray]],
        epochs: int,
        catalogue: TrainView | None = None,
    ) -> DrawnNegatives:
        """`rounds` gives (round number, codes of the users who took part); where `train` is the
        part of a `catalogue` that exists in training, columns are those of the whole of it."""
        _refuse_other_views(train)
        number_R: list[int] = []
        present: list[np.ndarray] = []
        for number, user_P in rounds:
            here_U = np.zeros(train.n_users, bool)
            here_U[user_P] = True
            number_R.append(number)
            present.append(np.packbits(here_U))
        code_W = None if catalogue is None else catalogue.warm_W
        return cls(
            train,
            sampling,
            seed,
            epochs if sampling.redraw == "epoch" else min(epochs, 1),
            np.array(number_R, dtype=np.int64),
            np.stack(present) if present else np.zeros((0, 1), np.uint8),
            np.arange(train.n_items) if code_W is None else code_W,
            train.n_items if catalogue is None else catalogue.n_items,
        )

    @classmethod
    def nothing(cls, train: TrainView) -> DrawnNegatives:
        """Of a method that draws no negatives.

        >>> from tacit.data.views import Lists
        >>> train = TrainView(2, Lists.empty(1), np.array([5], np.uint64), Lists.empty(1))
        >>> DrawnNegatives.nothing(train).rounds_BI(np.array([0])).tolist()
        [[0, 0]]
        """
        return cls.of(train, Sampling(0), seed=0, rounds=(), epochs=0)

    def rounds_BI(self, user_B: np.ndarray) -> np.ndarray:
        """In how many rounds each of these users drew each item; uint16."""
        count_BI = np.zeros((len(user_B), self.n_items), np.uint16)
        positives, negatives = self.train.positives, self.sampling.negatives
        most = int(positives.size_U[user_B].max(initial=0)) * (1 + negatives)
        _count_rounds(
            self.seed,
            self.round_R,
            self.epochs,
            self.sampling.redraw_code,
            np.ascontiguousarray(user_B, dtype=np.int64),
            self.present_RU,
            *_columns(self.train),
            self.train.user_key_U,
            negatives,
            self.code_W,
            most,
            count_BI,
        )
        return count_BI


def _columns(train: TrainView) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    hidden = train.hidden_from_negatives
    return train.positives.start_U1, train.positives.item_N, hidden.start_U1, hidden.item_N


def _refuse_other_views(train: TrainView) -> None:
    if not isinstance(train, TrainView):
        raise TacitError(
            f"Samples are drawn from a TrainView, not from a {type(train).__name__}; pass "
            "split.train, so that held-out items stay out of training."
        )
