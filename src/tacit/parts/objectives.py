"""Losses of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from tacit.core.parts import Objective
from tacit.core.registry import register

# Binary cross-entropy, on logits or on probabilities.

# Below this value of p(1 - p) the released code's gradient fades: the floor of torch's own loss.
PROBABILITY_FLOOR = 1e-12


@register("bce")
@dataclass(frozen=True)
class BinaryCrossEntropy(Objective):
    """Mean binary cross-entropy of a batch.

    `on="logits"` is the exact loss. `on="probabilities"` takes the sigmoid first, as the released
    code of PFedRec does: once it saturates in floating point the gradient is exactly zero, also for
    a wrong answer. With the huge item steps of the field the two learn differently.

    >>> half = torch.ones(2) / 2
    >>> loss = BinaryCrossEntropy().loss(torch.zeros(2), torch.tensor([0.0, 1.0]), half)
    >>> round(loss.item(), 4)
    0.6931
    """

    on: Literal["logits", "probabilities"] = "logits"

    def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor:
        # softplus(z) - y z: the same number as the library's loss, and it maps over clients. Its
        # default threshold of 20 rounds the slope to 1 too early for float64; 40 is exact.
        value_N = softplus(logit_N, threshold=40.0) - label_N * logit_N
        if self.on == "probabilities":
            probability = torch.sigmoid(logit_N)
            fade = (probability * (1 - probability) / PROBABILITY_FLOOR).clamp(max=1.0)
            slope = ((probability - label_N) * fade).detach()
            # the value of the loss with the released code's slope
            value_N = (value_N - slope * logit_N).detach() + slope * logit_N
        return (value_N * weight_N).sum()


# Bayesian personalised ranking: what was chosen before what was not.


@register("pairwise")
@dataclass(frozen=True)
class PairwiseRanking(Objective):
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
