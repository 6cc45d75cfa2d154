"""DPALS: alternating least squares whose item step is a noisy sum over clients.

After Chien et al., "Private Alternating Least Squares" (2021): user vectors are solved on the
device and bounded, items of heavy users weigh less, counts are noisy, and the server solves each
item from sums A_i = sum w u u^T and b_i = sum w u over its users, the A_i made symmetric and
positive; a few iterations. For implicit feedback a client also sends u u^T, for all the items that
it has not touched. With `content` items have public features (after Curmei et al., "Private Matrix
Factorization with Public Item Features", 2023): rows begin as their features, and a ridge draws
them to a linear map of their features in place of zero.

Ours: counts come first and say which items are heard (`counts_first.py`); user vectors are brought
to norm 1 and not only cut there; the weights of a client's items have a sum of squares of 1, so
that all its b_i together have norm 1, and all its A_i; the ridge is in units of the noise; the map
of the features is a ridge regression by counts. Single A_i are noise for budgets of 8 and less:
with `own_share = 0`, which is the default, all items share the matrix of the untouched ones.

The settings are those of the best mean over the validation parts of four datasets. With each left
out in turn, two give these, one a width of 8 (ML-1M) and one a third iteration (ML-100K). With
features the best mean has a background of 0.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import Bound, ClientData
from tacit.core.registry import register
from tacit.core.types import ITEMS, Initializer, Params, Task
from tacit.data.dataset import Modalities
from tacit.errors import TacitError, shown
from tacit.methods.counts_first import COUNTS, ITEM_WEIGHT, CountsFirst, scaled
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.parts.cold.features import Features
from tacit.privacy.shrinkage import symmetric, without_negative_directions

GRAM, OWN, RIGHT = "gram", "own", "right"  # sum u u^T; A_i as flat rows; b_i
FEATURES = "features"  # public, and known to the server alone
FEATURE_WIDTH = 64
MAP_RIDGE = 0.05  # of the map of features, relative to its mean diagonal


@register("dpals")
@dataclass(frozen=True)
class DpAls(CountsFirst):
    """Noisy alternating least squares.

    >>> method = DpAls(iterations=2)
    >>> method.max_rounds, sorted(method.sent_in(1)), sorted(method.sent_in(2))
    (3, ['counts'], ['gram', 'right'])
    """

    item_power: float = 0.15
    cut: float = 2.0
    dim: int = 16
    iterations: int = 2
    background: float = 1.0  # how much an item counts that a client has not touched
    user_ridge: float = 0.1
    ridge: float = 100.0  # of items, in units of the noise
    gram_share: float = 0.1  # of the squared norm of an iteration, for u u^T
    own_share: float = 0.0  # of the rest, for the A_i
    content: Features | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim < 1 or self.iterations < 1:
            raise TacitError(
                f"dim is {shown(self.dim)} and iterations {shown(self.iterations)}; both must be "
                "at least 1."
            )
        if min(self.background, self.ridge) < 0 or self.user_ridge <= 0:
            raise TacitError(
                f"background is {shown(self.background)}, ridge {shown(self.ridge)} and user_ridge "
                f"{shown(self.user_ridge)}; none may be negative, and the last must be above 0."
            )
        if not 0 < self.gram_share < 1 or not 0 <= self.own_share < 1:
            raise TacitError(
                f"gram_share is {shown(self.gram_share)} and own_share {shown(self.own_share)}; "
                "they lie between 0 and 1, and only the second may be 0."
            )

    @property
    def parts(self) -> int:
        return self.iterations

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0, together=True)

    def _size(self, name: str) -> float:
        """The norm of one of the sums of an iteration; all of them together have `part_size`."""
        rest = 1 - self.gram_share
        shares = {GRAM: self.gram_share, OWN: rest * self.own_share}
        return self.part_size * math.sqrt(shares.get(name, rest * (1 - self.own_share)))

    # What is shared

    @property
    def later_sums(self) -> frozenset[str]:
        return frozenset({GRAM, RIGHT} | ({OWN} if self.own_share else set()))

    @property
    def row_parameters(self) -> frozenset[str]:
        return self.later_sums - {GRAM}

    def shared(self, task: Task) -> dict[str, Initializer]:
        items, dim = task.n_items, self.dim
        table = Initializer((items, dim))
        own = {OWN: Initializer((items, dim * dim))} if self.own_share else {}
        public = {FEATURES: Initializer((items, FEATURE_WIDTH))} if self.content else {}
        first = Initializer((items, dim), "normal", 1 / math.sqrt(dim))
        square = Initializer((dim, dim))
        return {**self.counted(task), ITEMS: first, GRAM: square, RIGHT: table, **own, **public}

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {name: shared[name] for name in (ITEM_WEIGHT, ITEMS)}

    # One device

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if round_number == 1:
            return private, {COUNTS: self.counts_of(received, data)}
        if not self.sends(round_number):
            return private, {}
        user_D = self.solve(received[ITEMS], data)
        user_D = scaled(user_D, user_D.square().sum(), 1.0)
        spoken_H = self.spoken_of(data)
        weight_H = received[ITEM_WEIGHT][data.history_H] * spoken_H
        # an item that stands twice is one item with both weights
        same_HH = (data.history_H[:, None] == data.history_H).to(weight_H)
        weight_H = scaled(weight_H, (weight_H @ same_HH * weight_H).sum(), 1.0)
        product_DD = user_D[:, None] * user_D
        sent = {GRAM: product_DD, RIGHT: weight_H[:, None] * user_D}
        if self.own_share:
            sent[OWN] = weight_H[:, None] * product_DD.flatten()
        return private, {name: self._size(name) * value for name, value in sent.items()}

    def solve(self, item_ID: Tensor, data: ClientData) -> Tensor:
        """The client's own vector, from its history and the items that it has not touched."""
        row_HD = item_ID[data.history_H]
        own_HD = row_HD * data.real_H[:, None]
        ridge_DD = self.user_ridge * torch.eye(self.dim, dtype=item_ID.dtype)
        left_DD = self.background * item_ID.T @ item_ID + own_HD.T @ row_HD + ridge_DD
        return torch.linalg.solve(left_DD, own_HD.sum(0))

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return received[ITEMS] @ self.solve(received[ITEMS], data)

    # The server

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        if COUNTS in total:
            told = self.heard(shared, total[COUNTS], n_clients)
            return {**told, ITEMS: self._first(shared[ITEMS], told)}
        if RIGHT not in total:
            return shared
        noise = self.noise_on_sums(n_clients)
        heard_I1 = (shared[ITEM_WEIGHT] > 0)[:, None]
        right_ID = heard_I1 * total[RIGHT] / self._size(RIGHT)
        gram_DD = without_negative_directions(symmetric(total[GRAM]) / self._size(GRAM))
        # 1 / mean root of a history's length, which the sum of all counts tells
        usual = n_clients / shared[COUNTS].sum()
        strength = self.user_ridge + self.ridge * noise / self.part_size
        left_DD = self.background * usual * gram_DD + strength * torch.eye(self.dim).to(gram_DD)
        if self.own_share:
            own_IDD = total[OWN].reshape(-1, self.dim, self.dim) / self._size(OWN)
            left = left_DD + without_negative_directions(symmetric(own_IDD))
        else:
            left = left_DD
        item_ID = _solved(left, right_ID)
        if self.content is not None:
            mapped_ID = _mapped(shared[FEATURES], item_ID, shared[COUNTS])
            item_ID = _solved(left, right_ID + strength * mapped_ID)
        return {**shared, ITEMS: _of_mean_norm_1(item_ID)}

    def _first(self, item_ID: Tensor, told: Params) -> Tensor:
        """The rows that the first iteration begins with: rare items are short."""
        long_I = (told[COUNTS] / told[COUNTS].max()).sqrt()
        if self.content is None:
            long_I = long_I * (told[ITEM_WEIGHT] > 0)
        return _of_mean_norm_1(item_ID * long_I[:, None])

    # Public features

    @property
    def ranks_unseen(self) -> bool:
        return self.content is not None

    def complete(self, shared: Params, content: Modalities) -> Params:
        """After the first step: the features, and rows that begin as the leading ones."""
        assert self.content is not None
        if shared[FEATURES].any():
            return shared
        every_I = np.ones(len(shared[COUNTS]), bool)
        row_IF = torch.from_numpy(self.content.rows(content, every_I, FEATURE_WIDTH)).double()
        row_IF = torch.nn.functional.pad(row_IF, (0, FEATURE_WIDTH - row_IF.shape[1]))
        leading_ID = row_IF[:, : self.dim]
        if leading_ID.shape[1] < self.dim:
            leading_ID = torch.nn.functional.pad(leading_ID, (0, self.dim - leading_ID.shape[1]))
        unit_ID = leading_ID / leading_ID.norm(dim=1, keepdim=True).clamp(min=1e-6)
        return {**shared, FEATURES: row_IF, ITEMS: self._first(unit_ID, shared)}

    def interpretation(self) -> list[str]:
        return [
            "only sums of the uploads are used: under secure aggregation the server reads how often"
            " items are taken, and for each item the sum of the vectors of its users",
            "without secure aggregation it reads a client's history and its vector",
            "what one client adds to all sums together is of Euclidean norm 1 at most",
        ]


def _solved(left: Tensor, right_ID: Tensor) -> Tensor:
    """Each row solved, with a matrix of its own or with the same for all."""
    if left.dim() == 2:
        return torch.linalg.solve(left, right_ID.T).T
    return torch.linalg.solve(left, right_ID)


def _mapped(feature_IF: Tensor, item_ID: Tensor, count_I: Tensor) -> Tensor:
    """What a linear map of the features says of each row; frequent items weigh more."""
    one_I1 = torch.ones_like(feature_IF[:, :1])
    wide_IF = torch.cat((feature_IF, one_I1), dim=1)
    weighed_FI = (wide_IF * (count_I / count_I.mean())[:, None]).T
    left_FF = weighed_FI @ wide_IF
    ridge = MAP_RIDGE * left_FF.diagonal().mean()
    left_FF = left_FF + ridge * torch.eye(len(left_FF)).to(left_FF)
    return wide_IF @ torch.linalg.solve(left_FF, weighed_FI @ item_ID)


def _of_mean_norm_1(item_ID: Tensor) -> Tensor:
    return item_ID / item_ID.norm(dim=1).mean().clamp(min=1e-9)


METHODS["dpals"] = Entry(
    build=DpAls,
    summary="alternating least squares from noisy sums, for claims of privacy",
    rounds=DpAls().max_rounds or 1,
    presets={"paper": {}, "content": {"content": Features(), "background": 0.3}},
    chosen={"paper": Chosen(("ml-100k", "ml-1m", "amazon-video", "citeulike-a"))},
)
