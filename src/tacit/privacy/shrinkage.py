"""What a server makes of noisy sums whose noise it knows: free, since it looks at nothing else.

Sums are counts of items, and symmetric tables over pairs of items; their noise is Gaussian with a
known standard deviation. The estimates are ours, but for the form of the prior (spike and slab).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOOR = 0.5  # of the mean count: no count is taken to be less
LEAST = 1e-3  # of a mean that noise made smaller still
FIRST_GROUP, GROWTH = 20, 1.4  # how many items the most frequent group has, and how groups grow


def positive_counts(count_I: Tensor, noise: float) -> Tensor:
    """Counts to divide by: small ones are drawn to a floor, large ones lose one deviation of noise.

    >>> positive_counts(torch.tensor([-1.0, 2.0, 11.0]), noise=1.0).tolist()
    [2.0, 2.0, 10.0]
    """
    floor = FLOOR * count_I.mean().clamp(min=LEAST)
    return floor + (count_I - floor - noise).clamp(min=0)


def is_heard(count_I: Tensor, noise: float, cut: float) -> Tensor:
    """Whether a count stands out of its noise by `cut` standard deviations.

    >>> is_heard(torch.tensor([0.0, 2.0, 3.0]), noise=1.0, cut=2.0).tolist()
    [False, False, True]
    """
    return count_I > cut * noise


def symmetric(table_II: Tensor) -> Tensor:
    """A table and its transpose, averaged: noise of single entries falls by sqrt(2), but for the
    diagonal. Tables may be stacked.

    >>> symmetric(torch.tensor([[1.0, 2.0], [4.0, 5.0]])).tolist()
    [[1.0, 3.0], [3.0, 5.0]]
    """
    return (table_II + table_II.mT) / 2


def without_negative_directions(table_II: Tensor) -> Tensor:
    """The nearest positive semi-definite table to a symmetric one. Tables may be stacked.

    >>> without_negative_directions(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).round(decimals=4)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    value_D, vector_DD = torch.linalg.eigh(table_II)
    return (vector_DD * value_D.clamp(min=0)[..., None, :]) @ vector_DD.mT


def spike_and_slab(value: Tensor, noise: float) -> Tensor:
    """The posterior means of values that were seen with Gaussian noise.

    A value is 0, or with some probability p drawn from N(0, v). p and v are those that give the
    second and the fourth moment which the values have beyond their noise s: E y^2 = p v + s^2 and
    E y^4 = 3 (p v^2 + 2 p v s^2 + s^4). Of the second moment one standard error is taken off, so
    that a table of nothing but noise is mostly taken for nothing.

    >>> seen = torch.tensor([0.0, 1.0, -1.0, 0.5, 10.0])
    >>> [round(one, 2) for one in spike_and_slab(seen, noise=1.0).tolist()]
    [0.0, 0.26, -0.26, 0.1, 9.71]
    >>> spike_and_slab(seen, noise=0.0) is seen
    True
    """
    if noise == 0 or not value.numel():
        return value
    square, moment = noise * noise, value.square()
    second = float(moment.mean()) - square * (1 + math.sqrt(2 / value.numel()))
    if second <= 0:
        return torch.zeros_like(value)  # no more than noise
    fourth = float(moment.square().mean()) / 3 - square * square - 2 * square * second
    variance = max(fourth / second, second)
    share = min(second / variance, 1 - 1e-4)
    odds = math.log(share / (1 - share)) + 0.5 * math.log(square / (square + variance))
    slope = 0.5 * (1 / square - 1 / (square + variance))
    kept = variance / (variance + square)
    return moment.mul_(slope).add_(odds).sigmoid_().mul_(value).mul_(kept)


def groups_by_count(count_I: Tensor) -> list[Tensor]:
    """Items in groups of similar counts, the most frequent first; rarer groups are larger.

    >>> [len(group) for group in groups_by_count(torch.arange(60.0))]
    [20, 28, 12]
    """
    left, size, sizes = len(count_I), float(FIRST_GROUP), []
    while left > 0:
        sizes.append(min(int(size), left))
        left, size = left - sizes[-1], size * GROWTH
    return list(torch.argsort(count_I, descending=True, stable=True).split(sizes))


def shrunken_pairs(pair_II: Tensor, noise: float, count_I: Tensor) -> Tensor:
    """A symmetric table of pairs, each drawn to what the counts of its items let expect.

    That is a multiple of the product of the two counts. What a pair has beyond it is shrunk by
    `spike_and_slab`, with moments of its own for every two groups of items. The diagonal stays 0.

    >>> pair_II = torch.tensor([[0.0, 3.0], [3.0, 0.0]])
    >>> shrunken_pairs(pair_II, 0.0, torch.ones(2)).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    expected_II = (count_I[:, None] * count_I).fill_diagonal_(0.0)
    expected_II *= pair_II.sum() / expected_II.sum().clamp(min=1e-300)
    beyond_II = pair_II - expected_II
    groups = groups_by_count(count_I)
    for row_A in groups:
        for column_B in groups:
            seen_AB = beyond_II[row_A[:, None], column_B]
            beyond_II[row_A[:, None], column_B] = spike_and_slab(seen_AB, noise)
    return (expected_II + beyond_II).fill_diagonal_(0.0)
