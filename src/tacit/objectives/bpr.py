"""Bayesian personalised ranking: what was chosen before what was not."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus


@dataclass(frozen=True)
class PairwiseRanking:
    """The mean of -ln σ(s_p - s_n) over all pairs of a positive p and a negative n in a batch.

    >>> import torch
    >>> ones = torch.ones(3) / 3
    >>> loss = PairwiseRanking().loss(torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]), ones)
    >>> round(loss.item(), 4)
    0.6931
    """

    def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor:
        real_N = (weight_N > 0).to(logit_N.dtype)
        positive_N, negative_N = label_N * real_N, (1 - label_N) * real_N
        pair_NN = positive_N[:, None] * negative_N[None, :]
        value_NN = softplus(logit_N[None, :] - logit_N[:, None], threshold=40.0)
        return (pair_NN * value_NN).sum() / pair_NN.sum().clamp(min=1.0)
