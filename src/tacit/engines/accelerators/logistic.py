"""The arithmetic that all kernels share: dot products, the logistic loss and its slope, bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.parts.objectives import PROBABILITY_FLOOR

# Reassociation lets the dot products vectorise; NaN and infinity keep their meaning.
FAST = {"contract", "arcp", "nsz", "reassoc"}


class Logistic(NamedTuple):
    """Binary cross-entropy, with numbers of the tables' own kind: numba computes float32 with an
    integer in float64."""

    on_probabilities: bool  # the slope fades where the sigmoid saturates, as in released code
    zero: np.floating
    one: np.floating
    floor: np.floating  # below this value of p(1 - p) the slope fades

    @classmethod
    def of(cls, on_probabilities: bool, dtype: np.dtype) -> Logistic:
        """In one precision.

        >>> Logistic.of(False, np.dtype(np.float32)).one.dtype
        dtype('float32')
        """
        kind = dtype.type
        return cls(on_probabilities, kind(0.0), kind(1.0), kind(PROBABILITY_FLOOR))


class Rates(NamedTuple):
    """The lengths of one round's steps."""

    model: np.floating
    items: np.floating


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def dot(a, b, n):  # type: ignore[no-untyped-def]
    """The sum of a[d] · b[d] over n ≥ 1 places."""
    total = a[0] * b[0]
    for d in range(1, n):
        total += a[d] * b[d]
    return total


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def slope_of(decay, label, loss):  # type: ignore[no-untyped-def]
    """The derivative of the loss by the logit; `decay` is exp(-logit)."""
    probability = loss.one / (loss.one + decay)
    slope = probability - label
    if loss.on_probabilities:
        product = probability * (loss.one - probability)
        if product < loss.floor:
            slope *= product / loss.floor
    return slope


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def add_loss(total, product, logit, label, decay, t):  # type: ignore[no-untyped-def]
    """Add the loss of sample `t` of a batch to `total`: softplus(z) - y z, where softplus(z) is
    z + log(1 + exp(-z)).

    Sixteen samples share one logarithm: until then their 1 + exp(-z) are multiplied in `product`.
    After the last sample log(product) is still to be added.
    """
    if logit > -40:
        total += logit - label * logit
        product *= 1.0 + np.float64(decay)
    else:
        total -= label * logit
    if (t & 15) == 15:
        total += np.log(product)
        product = 1.0
    return total, product


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def loss_of(logit, label, decay):  # type: ignore[no-untyped-def]
    """The loss of one sample, with a logarithm of its own; `decay` is exp(-logit)."""
    loss = -np.float64(label * logit)
    if logit > -40:
        loss += logit + np.log1p(np.float64(decay))
    return loss


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def scale_to(bound, norm, one):  # type: ignore[no-untyped-def]
    """The factor that takes a vector of this norm to at most `bound`."""
    return bound / norm if norm > bound else one
