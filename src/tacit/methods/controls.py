"""Controls: popularity, a random order, unseen items first, mean profiles, and training alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.core.algorithm import Bound, ClientData
from tacit.core.central import CentralMethod
from tacit.core.custom import CustomMethod
from tacit.core.method import Method
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry
from tacit.methods.pfedrec import pfedrec
from tacit.parts.cold.features import Features
from tacit.parts.sync import Isolated
from tacit.privacy.guarantee import PrivacyRequest

# The control that knows nothing of a person: items by how often they occur in train.


@dataclass(frozen=True, eq=False)
class OneOrder:
    """The same scores for everybody."""

    score_I: np.ndarray

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        return np.tile(self.score_I, (len(histories), 1))


@register("popularity")
@dataclass(frozen=True)
class Popularity(CentralMethod):
    """Every user gets the same list.

    >>> Popularity().settings
    1
    """

    ranks_unseen: ClassVar[bool] = True

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> OneOrder:
        return OneOrder(train.popularity_I().astype(np.float64))


METHODS["popularity"] = Entry(build=Popularity, summary="control: items by train count", rounds=1)


# The same from one sum over clients, which can carry a claim of privacy (ours). Under a claim a
# client sends x / |x|, so that long histories count for less; without one it sends its row x.

COUNTS = "counts"


@register("fedpop")
@dataclass(frozen=True)
class FedPop(CustomMethod):
    """Items by how often clients have them, from one sum.

    >>> [FedPop().sends(round_number) for round_number in (1, 2)]
    [True, False]
    """

    scale: Literal["none", "norm"] = "none"
    privacy: PrivacyRequest | None = None

    @property
    def shows_history(self) -> frozenset[str]:
        return frozenset({COUNTS})

    def protected(self, request: PrivacyRequest) -> FedPop:
        return replace(self, privacy=request, scale="norm")

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0) if self.scale == "norm" else None

    @property
    def max_rounds(self) -> int | None:
        return 1

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {COUNTS: Initializer((task.n_items,))}

    def sends(self, round_number: int) -> bool:
        return round_number == 1

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        zero_I = torch.zeros_like(received[COUNTS])
        row_I = zero_I.index_add(0, data.history_H, data.real_H)
        if self.scale == "norm":
            row_I = row_I / row_I.norm().clamp(min=1.0)  # an empty row stays empty
        return private, {COUNTS: row_I}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        return {COUNTS: total.get(COUNTS, shared[COUNTS])}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return received[COUNTS]

    def interpretation(self) -> list[str]:
        return [
            "only the sum of the uploads is used: under secure aggregation the server reads how "
            "often each item is taken, over all clients",
            "without secure aggregation it reads a client's history",
        ]


METHODS["fedpop"] = Entry(
    build=FedPop, summary="control: items by train count, from one sum over clients", rounds=1
)


# The control that learns nothing: a random order of items for each user.


@dataclass(frozen=True)
class RandomScores:
    n_items: int
    seed: int

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        return streams.uniforms(self.seed, streams.INIT, 0, key_B, self.n_items)


@register("random")
@dataclass(frozen=True)
class RandomOrder(CentralMethod):
    """Scores drawn from the user's own stream: at chance, up to luck.

    >>> RandomOrder().settings
    1
    """

    ranks_unseen: ClassVar[bool] = True

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> RandomScores:
        return RandomScores(train.n_items, seed)


METHODS["random"] = Entry(build=RandomOrder, summary="control: a random order per user", rounds=1)


# The control for splits that give items away: what nobody has in train stands first.
#
# Where few items are in nobody's train and many held-out ones are among them, as in NineRec KU,
# this order needs no model to look good. It is what training drifts to when such items are never
# drawn as negatives.


@register("unseen_first")
@dataclass(frozen=True)
class UnseenFirst(CentralMethod):
    """Every user gets the same list: unseen items, then by train count, `popular` or `rare` first.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 2, 3]), np.array([0, 2, 2]))
    >>> train = TrainView(3, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> UnseenFirst().fit(train, 0, seed=0).score_I.tolist()
    [1.0, 3.0, 2.0]
    >>> UnseenFirst(then="rare").fit(train, 0, seed=0).score_I.tolist()
    [-1.0, 0.0, -2.0]
    """

    ranks_unseen: ClassVar[bool] = True

    then: Literal["popular", "rare"] = "popular"

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> OneOrder:
        count_I = train.popularity_I().astype(np.float64)
        if self.then == "rare":
            return OneOrder(0.0 - count_I)
        return OneOrder(np.where(count_I == 0, count_I.max() + 1, count_I))


METHODS["unseen_first"] = Entry(
    build=UnseenFirst, summary="control: items in nobody's train, then by train count", rounds=1
)


# The control that trains nothing: an item is as good as its content is like the user's own items.
#
# It needs no federation: a device that has the content of its items and of the candidates can do
# it.


@dataclass(frozen=True, eq=False)
class ProfileScorer:
    """Cosines between items and the mean of a history."""

    unit_IF: np.ndarray

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        profile_BF = np.stack([self.unit_IF[one.item_H].mean(axis=0) for one in histories])
        return profile_BF @ self.unit_IF.T


@register("mean_profile")
@dataclass(frozen=True)
class MeanProfile(CentralMethod):
    """score = cos(f_i, mean of f over the user's train items).

    >>> MeanProfile().settings
    1
    """

    ranks_unseen: ClassVar[bool] = True

    features: Features = Features(reduce=False)

    @property
    def settings(self) -> int:
        return 1

    def fit(self, train: TrainView, setting: int, seed: int) -> ProfileScorer:
        if not train.content:
            raise TacitError("mean_profile compares content, and this data has none; encode some.")
        touched_I = train.popularity_I() > 0
        row_IF = self.features.rows(train.content, touched_I, 1)
        length_I1 = np.linalg.norm(row_IF, axis=1, keepdims=True)
        return ProfileScorer(row_IF / np.maximum(length_I1, 1e-12))


METHODS["mean_profile"] = Entry(
    build=MeanProfile, summary="control: content like that of the user's own items", rounds=1
)


# The control without federation: each client trains alone, on a table that nobody else sees.
#
# Under honest negatives it cannot know an item that its user never touched, so it stays at chance
# or below. Where it soars, the evaluation leaks.


def local_only(dim: int = 32, rate: float = 0.1, per_item: float = 80.0) -> Method:
    """PFedRec's client that never communicates.

    >>> local_only().sync.sends(1)
    False
    """
    return replace(pfedrec(dim, rate, per_item), sync=Isolated())


METHODS["local_only"] = Entry(
    build=local_only,
    summary="control: PFedRec's client, alone for ever",
    rounds=100,
    protocol="pfedrec",
)
