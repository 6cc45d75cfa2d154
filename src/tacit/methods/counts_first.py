"""A release that begins with noisy counts of items (ours): what methods under a claim share.

All that a client sends over a run has Euclidean norm 1 together, and comes in parts:

1. Counts: a client sends sqrt(share) x / |x|, where x is its train row.
2. One or more parts with what the method learns, of squared norm (1 - share) / parts each.

Composed Gaussians of one noise are one Gaussian over the joined vector, so the claim is that of a
single release of norm 1, however the parts share it. The later parts may depend on the noisy
counts: the server tells everybody which items are *heard*, those whose count stands out of its
noise, and a weight of each, count^-item_power. Items that are not heard would bring little beside
noise, and clients leave them out, so that what they say of the others is louder.

The share of the counts is a rule of public sizes. Its form was drawn by hand from what validation
liked on four datasets, and is the same for all data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import ClientData
from tacit.core.custom import CustomAlgorithm, CustomMethod
from tacit.core.recency import Recency
from tacit.core.types import Initializer, Params, Task
from tacit.data.views import Lists
from tacit.errors import TacitError, shown
from tacit.privacy.guarantee import PrivacyRequest
from tacit.privacy.shrinkage import is_heard, positive_counts

COUNTS, ITEM_WEIGHT = "counts", "item_weight"

# Data on which settings were chosen: by searches on validation, and by hand after looks at
# validation and test (docs/privacy.md). The people of amazon-video-10 are people of amazon-video.
SEEN = ("ml-100k", "ml-1m", "amazon-video", "amazon-video-10", "citeulike-a")

COUNT_SHARE, LEAST_SHARE, MOST_SHARE = 0.03, 0.02, 0.2


def share_for(noise: float, n_users: int, n_items: int) -> float:
    """The share of the counts: more where noise is loud and items are many.

    >>> [share_for(noise, n_users=1000, n_items=2000) for noise in (0.1, 1.0, 10.0)]
    [0.02, 0.06, 0.2]
    """
    return min(MOST_SHARE, max(LEAST_SHARE, COUNT_SHARE * noise * n_items / n_users))


@dataclass(frozen=True)
class CountsFirst(CustomMethod):
    """The first part of a release, and what its server takes from it. A method adds its own parts:
    how many, what clients send in them, and what the server makes of that."""

    chosen_on: ClassVar[tuple[str, ...]] = SEEN
    share: float | None = None  # of the squared norm, for counts; None: by `share_for`
    item_power: float = 0.25
    cut: float = 3.0  # an item is heard if its count is above so many deviations of its noise
    last: int | None = None  # how many of its latest items a client speaks of; None: all
    recency: Recency | None = None
    privacy: PrivacyRequest | None = None

    def __post_init__(self) -> None:
        if self.share is not None and not 0 < self.share < 1:
            raise TacitError(f"share is {shown(self.share)}; it lies between 0 and 1.")
        if self.last is not None and self.last < 1:
            raise TacitError(f"last is {shown(self.last)}; it must be at least 1, or left out.")

    @property
    def shows_history(self) -> frozenset[str]:
        return frozenset({COUNTS})

    @property
    def parts(self) -> int:
        """How many parts follow the counts."""
        return 1

    @property
    def later_sums(self) -> frozenset[str]:
        """What clients send in the parts that follow the counts."""
        raise NotImplementedError

    @property
    def row_parameters(self) -> frozenset[str]:
        return self.later_sums

    def uploads(self, task: Task) -> frozenset[str]:
        return self.later_sums | {COUNTS}

    def sent_in(self, round_number: int) -> frozenset[str]:
        return frozenset({COUNTS}) if round_number == 1 else self.later_sums

    def algorithm(self, task: Task) -> CustomAlgorithm:
        """On a catalogue of known size: the rule then knows the share of the counts."""
        if self.share is not None:
            return super().algorithm(task)
        share = share_for(self.noise_on_sums(1), task.n_users, task.n_items)
        return replace(self, share=share).algorithm(task)

    @property
    def max_rounds(self) -> int | None:
        return 1 + self.parts

    def sends(self, round_number: int) -> bool:
        return round_number <= 1 + self.parts

    @property
    def reads_order(self) -> bool:
        return self.last is not None

    def counted(self, task: Task) -> dict[str, Initializer]:
        """What the server shares of the counts."""
        one = Initializer((task.n_items,))
        return {COUNTS: one, ITEM_WEIGHT: one}

    # Sizes

    @property
    def count_size(self) -> float:
        """The norm of a client's counts."""
        return math.sqrt(LEAST_SHARE if self.share is None else self.share)

    @property
    def part_size(self) -> float:
        """The norm of each later part."""
        return math.sqrt((1 - self.count_size**2) / self.parts)

    def noise_on_sums(self, n_clients: int) -> float:
        """The standard deviation of the noise on every entry of every sum."""
        if self.privacy is None:
            return 0.0
        clip = self.privacy.clip
        bound, releases = (1.0, 1) if clip is None or clip >= 1 else (clip, 1 + self.parts)
        noise = self.privacy.noise(bound, releases)
        return noise * math.sqrt(n_clients) if self.privacy.view == "local" else noise

    # One device

    def spoken_of(self, data: ClientData) -> Tensor:
        """1 for the entries of the history that the client speaks of, 0 for all others."""
        if self.last is None:
            return data.real_H
        assert data.order_H is not None
        return data.real_H * (data.order_H >= data.real_H.sum() - self.last)

    def counts_of(self, received: Params, data: ClientData) -> Tensor:
        """The first part."""
        zero_I = torch.zeros_like(received[ITEM_WEIGHT])
        row_I = zero_I.index_add(0, data.history_H, self.spoken_of(data).to(zero_I))
        return scaled(row_I, row_I.square().sum(), self.count_size)

    # The server

    def heard(self, shared: Params, sum_I: Tensor, n_clients: int) -> Params:
        """What everybody is told after the first part."""
        count_I, noise = sum_I / self.count_size, self.noise_on_sums(n_clients) / self.count_size
        positive_I = positive_counts(count_I, noise)
        weight_I = (positive_I / positive_I.min()) ** -self.item_power
        weight_I = weight_I * is_heard(count_I, noise, self.cut)
        return {**shared, COUNTS: positive_I, ITEM_WEIGHT: weight_I}

    # All devices at once

    def ragged_spoken_of(self, history: Lists) -> Lists:
        """The latest items of histories that run from the earliest to the latest."""
        if self.last is None:
            return history
        end_U, size_U = history.start_U1[1:], np.minimum(history.size_U, self.last)
        start_U1 = np.concatenate([[0], np.cumsum(size_U)])
        place_N = np.arange(start_U1[-1]) + np.repeat(end_U - size_U - start_U1[:-1], size_U)
        return Lists(start_U1, history.item_N[place_N])


def scaled(value: Tensor, square: Tensor, size: float) -> Tensor:
    """A value whose squared norm is `square`, brought to the norm `size`; zero stays zero.

    >>> scaled(torch.tensor([3.0, 4.0]), torch.tensor(25.0), size=0.5).tolist()
    [0.30000001192092896, 0.4000000059604645]
    """
    safe = torch.where(square > 0, square, torch.ones_like(square))
    return value * torch.where(square > 0, size / safe.sqrt(), torch.zeros_like(square))


def summed_counts(history: Lists, n_items: int, size: float) -> Tensor:
    """The sum over clients of x / |x|, times `size`.

    >>> history = Lists(np.array([0, 2, 3]), np.array([0, 1, 1]))
    >>> [round(value, 4) for value in summed_counts(history, 3, size=1.0).tolist()]
    [0.7071, 1.7071, 0.0]
    """
    code_N, times_N = np.unique(history.list_N * n_items + history.item_N, return_counts=True)
    client_N, item_N = code_N // n_items, code_N % n_items
    square_P = np.bincount(client_N, times_N**2.0, minlength=len(history))
    unit_N = size * times_N / np.sqrt(square_P[client_N])
    return torch.from_numpy(np.bincount(item_N, unit_N, minlength=n_items))
