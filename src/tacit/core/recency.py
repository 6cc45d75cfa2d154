"""How much less an item of a history counts the longer ago it was touched.

A device applies these weights to its own history when it ranks or trains. They cost no byte, and
nobody else learns anything from them. Distance is counted in items, not in seconds: it is known
wherever there is an order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from tacit.core.registry import register
from tacit.data.protocol import added_later
from tacit.data.views import History, TrainView
from tacit.errors import TacitError, shown

# The half-lives that a device tries for itself, as parts of the given one. The given one comes
# first: it stays where nothing ranks better. With the last all items count alike.
TRIED = (1.0, 0.25, 0.5, 2.0, 4.0, float("inf"))
LAST = 3  # how many of its latest items a device ranks to choose among them


@register("recency")
@dataclass(frozen=True)
class Recency:
    """Weights that halve with every `half_life` items that came later; the latest item has 1.

    With `per_user` every device chooses a half-life of its own among a quarter of the given one, a
    half, the double, four times as much, and none: the one that ranks its latest items best from
    those before them, with the received model. Nothing is sent.

    With a `floor` weights fall towards it and not to 0.

    >>> Recency(half_life=2.0).of_ages(np.array([0, 2, 4])).tolist()
    [1.0, 0.5, 0.25]
    """

    half_life: float = 4.0
    per_user: bool = False
    floor: float = added_later(0.0)

    def __post_init__(self) -> None:
        if not 0 <= self.floor < 1:
            raise TacitError(f"floor is {shown(self.floor)}; it is at least 0 and below 1.")
        if not self.half_life > 0:
            raise TacitError(
                f"half_life is {shown(self.half_life)}; it is a number of items above 0."
            )

    def decay(self, age_H: Tensor, half_life: Tensor) -> Tensor:
        """How much items count after which `age_H` others came. All weights are made here, so a
        subclass that wants others overrides this and nothing else."""
        weight_H = (-age_H / half_life).exp2()
        return weight_H if self.floor == 0 else self.floor + (1 - self.floor) * weight_H

    def _above_zero(self, age_H: Tensor, half_life: Tensor) -> Tensor:
        """The same, and never 0, however old: what has no weight is what is not in the history."""
        weight_H = self.decay(age_H, half_life)
        return weight_H.clamp(min=torch.finfo(weight_H.dtype).tiny)

    def of_ages(self, age_H: np.ndarray) -> np.ndarray:
        """The weight of items after which `age_H` others came."""
        age = torch.from_numpy(np.array(age_H, dtype=np.float64))
        weight_H: np.ndarray = self.decay(age, self._given(age)).numpy()
        return weight_H

    def of_history(self, length: int) -> np.ndarray:
        """The weights of a history of so many items, the earliest first.

        >>> Recency(half_life=1.0).of_history(3).tolist()
        [0.25, 0.5, 1.0]
        """
        return self.of_ages(np.arange(length)[::-1])

    def of_order(self, order_H: Tensor, real_H: Tensor) -> Tensor:
        """The same from positions in time, 0 the earliest; padding, where `real_H` is 0, has 0.

        >>> order_H, real_H = torch.tensor([1, 0, 0]), torch.tensor([1.0, 1.0, 0.0])
        >>> Recency(half_life=1.0).of_order(order_H, real_H).tolist()
        [1.0, 0.5, 0.0]
        """
        return self._above_zero(real_H.sum() - 1 - order_H, self._given(real_H)) * real_H

    # Weights of positives, for methods that train on them

    def of_items(self, history: History) -> tuple[np.ndarray, np.ndarray]:
        """The distinct items of a history in the order of their codes, and the share of each: the
        weight of the last time that it was touched, over the sum of all.

        >>> Recency(half_life=1.0).of_items(History(np.array([7, 4, 7])))
        (array([4, 7]), array([0.33333333, 0.66666667]))
        """
        item_K, back_K = np.unique(history.item_H[::-1], return_index=True)
        weight_K = self.of_ages(back_K)
        return item_K, weight_K / max(1.0, weight_K.sum())

    def of_positives(self, train: TrainView) -> np.ndarray:
        """The weight of every entry of `train.positives`. Those of one user have mean 1, so that a
        learning rate means what it did; an item that was touched twice has one weight, the later.

        >>> from tacit.data.views import Lists
        >>> lists = Lists(np.array([0, 2, 3]), np.array([5, 7, 9]))
        >>> train = TrainView(10, lists, np.arange(2, dtype=np.uint64), Lists.empty(2))
        >>> Recency(half_life=1.0).of_positives(train).tolist()
        [0.6666666666666666, 1.3333333333333333, 1.0]
        """
        known = _KNOWN.setdefault(train, {})
        if self not in known:
            known.clear()  # the weights of one method at a time: they are as many as interactions
            known[self] = self._of_positives(train)
        return known[self]

    def _of_positives(self, train: TrainView) -> np.ndarray:
        user_N, size_U = train.positives.list_N, train.positives.size_U
        # of an item that stands twice, the entry that came later
        code_N = user_N * train.n_items + train.positives.item_N
        by_code_N = np.lexsort((train.order_N, code_N))
        sorted_N = code_N[by_code_N]
        last_N = np.searchsorted(sorted_N, sorted_N, side="right") - 1
        order_N = np.empty_like(train.order_N)
        order_N[by_code_N] = train.order_N[by_code_N[last_N]]
        weight_N = self.of_ages(size_U[user_N] - 1 - order_N)
        sum_U = np.bincount(user_N, weight_N, minlength=len(size_U))
        return np.asarray(weight_N * (size_U[user_N] / sum_U[user_N]))

    # A half-life of one's own

    @property
    def grid(self) -> tuple[float, ...]:
        """The half-lives that a device tries; the given one comes first.

        >>> Recency(half_life=8.0, per_user=True).grid
        (8.0, 2.0, 4.0, 16.0, 32.0, inf)
        """
        return tuple(self.half_life * part for part in TRIED)

    def trials(self, order_H: Tensor, real_H: Tensor) -> Tensor:
        """(G, K, H): the weights with which each half-life of the grid ranks the latest item from
        those before it, then the one before it, and so on. An item that is not yet there has 0.

        >>> order_H, real_H = torch.tensor([0, 1, 2]), torch.ones(3)
        >>> Recency(half_life=1.0, per_user=True).trials(order_H, real_H)[0].tolist()
        [[0.5, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        """
        before_K1 = (real_H.sum() - 1 - torch.arange(LAST))[:, None]
        age_KH = before_K1 - 1 - order_H
        there_KH = (age_KH >= 0).to(real_H) * real_H
        half_life_G11 = self._grid(real_H)[:, None, None]
        weight_GKH = self._above_zero(age_KH.clamp(min=0), half_life_G11) * there_KH
        return weight_GKH.expand(len(TRIED), *age_KH.shape)

    def own(self, score_GKI: Tensor, history_H: Tensor, order_H: Tensor, real_H: Tensor) -> Tensor:
        """The weights of a history under the half-life that ranked its latest items best.

        The scores are those of `trials`. An item at rank r, among those that were not there before
        it, is worth 1 / log2(1 + r).

        >>> recency, order_H, real_H = Recency(1.0, per_user=True), torch.arange(2), torch.ones(2)
        >>> score_GKI = torch.zeros(6, 3, 5)
        >>> score_GKI[3, 0, 4] = 1.0  # the fourth half-life ranks item 4 first
        >>> recency.own(score_GKI, torch.tensor([2, 4]), order_H, real_H).tolist()
        [0.7071067690849304, 1.0]
        """
        length, n_items = real_H.sum(), score_GKI.shape[-1]
        before_K = length - 1 - torch.arange(LAST)
        is_next_KH = (order_H == before_K[:, None]).to(real_H) * real_H
        next_K = history_H[is_next_KH.argmax(1)]
        score_GK1 = score_GKI.gather(2, next_K.expand(len(score_GKI), LAST)[..., None])
        known_KH = (order_H < before_K[:, None]).to(real_H) * real_H
        known_KI = real_H.new_zeros(LAST, n_items).index_add(1, history_H, known_KH)
        open_KI = (known_KI == 0).to(real_H)
        above_GK = ((score_GKI > score_GK1).to(real_H) * open_KI).sum(2)
        equal_GK = ((score_GKI == score_GK1).to(real_H) * open_KI).sum(2)
        rank_GK = 1 + above_GK + (equal_GK - 1).clamp(min=0) / 2
        worth_GK = (before_K > 0).to(real_H) / (1 + rank_GK).log2()
        half_life = self._grid(real_H)[worth_GK.sum(1).argmax()]
        return self._above_zero(length - 1 - order_H, half_life) * real_H

    def _given(self, like: Tensor) -> Tensor:
        return torch.tensor(self.half_life, dtype=like.dtype)

    def _grid(self, like: Tensor) -> Tensor:
        return torch.tensor(self.grid, dtype=like.dtype)


# The weights of the positives of a view: they are the same in every round.
_KNOWN: WeakKeyDictionary[TrainView, dict[Recency, np.ndarray]] = WeakKeyDictionary()


# Histories that carry weights, for methods that see several at once

Scores = Callable[[Sequence[History], np.ndarray], np.ndarray]


def weighed(
    recency: Recency, histories: Sequence[History], score: Scores, key_B: np.ndarray
) -> list[History]:
    """The histories with the weights of their items. `score` gives (B, I) scores of the histories
    of named users; it is asked only where everybody has a half-life of its own.

    >>> one = weighed(Recency(1.0), [History(np.array([4, 2]))], lambda h, k: None, np.zeros(1))
    >>> one[0].weights.tolist()
    [0.5, 1.0]
    """
    return [
        _with_own(recency, history, score, key)
        if recency.per_user and len(history) > 1
        else replace(history, weight_H=recency.of_history(len(history)))
        for history, key in zip(histories, key_B, strict=True)
    ]


def _with_own(recency: Recency, history: History, score: Scores, key: np.uint64) -> History:
    order_H = torch.arange(len(history))
    real_H, item_H = torch.ones(len(history), dtype=torch.float64), torch.from_numpy(history.item_H)
    weight_GKH = recency.trials(order_H, real_H).numpy()
    shape = weight_GKH.shape[:2]
    before_K = np.maximum(len(history) - 1 - np.arange(LAST), 0)
    tried = [
        History(history.item_H[:count], _first(history.time_H, count), weight_KH[k, :count])
        for weight_KH in weight_GKH
        for k, count in enumerate(before_K)
    ]
    score_NI = np.asarray(score(tried, np.full(len(tried), key, np.uint64)), dtype=np.float64)
    score_GKI = torch.from_numpy(score_NI.reshape(*shape, -1))
    return replace(history, weight_H=recency.own(score_GKI, item_H, order_H, real_H).numpy())


def _first(time_H: np.ndarray | None, count: int) -> np.ndarray | None:
    return None if time_H is None else time_H[:count]
