"""What users drew as negatives in rounds that are over, drawn again from the same streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.data.batches import Drawing, positives_of
from tacit.data.sampling import Sampling, client_keys, draw_ordered, refuse_other_views
from tacit.data.views import TrainView


@compiled(nogil=True, error_model="numpy")
def _count_rounds(drawing, round_R, epochs, users, present_RU, code_W, most, count_BI):  # type: ignore[no-untyped-def]
    """Draw all rounds of some users again; an item counts once for each round that drew it."""
    n_items = len(code_W)
    out_item, out_label = np.empty(most, np.int64), np.empty(most, np.uint8)
    blocked = np.zeros(n_items, np.uint8)
    last_W = np.full(n_items, -1, np.int64)  # the last (user, round) that drew the item
    hidden_start = drawing.hidden_start_U1
    for b in range(len(users)):
        user = users[b]
        positives = positives_of(drawing, user)
        hidden = drawing.hidden_item_N[hidden_start[user] : hidden_start[user + 1]]
        for r in range(len(round_R)):
            if (present_RU[r, user >> 3] >> (7 - (user & 7))) & 1 == 0:
                continue
            this = b * len(round_R) + r
            for epoch in range(epochs):
                key, _ = client_keys(
                    drawing.seed, round_R[r], epoch, drawing.redraw, drawing.user_key_U[user]
                )
                n = draw_ordered(
                    key,
                    positives,
                    hidden,
                    n_items,
                    drawing.negatives,
                    out_item,
                    out_label,
                    blocked,
                )
                for sample in range(n):
                    item = out_item[sample]
                    if out_label[sample] == 0 and last_W[item] != this:
                        last_W[item] = this
                        count_BI[b, code_W[item]] += 1


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
        refuse_other_views(train)
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
        drawing = Drawing.of(self.train, self.sampling, self.seed, 0)
        users = np.ascontiguousarray(user_B, dtype=np.int64)
        _count_rounds(
            drawing, self.round_R, self.epochs, users, self.present_RU, self.code_W, most, count_BI
        )
        return count_BI
