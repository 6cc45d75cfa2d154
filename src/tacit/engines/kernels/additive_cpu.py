"""Local descent of a block of clients whose item row is a sum of two, for linear scorers.

What a batch does to a row depends on how its samples' slopes add up and on how many there are, so
each distinct row is read once and written once, however often it was drawn.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.linear_cpu import _FAST, _slope


@compiled(fastmath=_FAST, error_model="numpy", inline="always")
def _read_row(own, common, vector, zero):  # type: ignore[no-untyped-def]
    """vector · (own + common), the square of own − common, and the sum of |common|."""
    logit, square, size = zero, zero, zero
    for d in range(len(vector)):
        logit += vector[d] * (own[d] + common[d])
        square += (own[d] - common[d]) * (own[d] - common[d])
        size += abs(common[d])
    return logit, square, size


@compiled(fastmath=_FAST, error_model="numpy", inline="always")
def _move_row(own, common, vector, gradient, slope, pull, sparse, rate, zero):  # type: ignore[no-untyped-def]
    """One step of both rows; adds slope · (own + common) to the scorer's gradient first."""
    for d in range(len(vector)):
        mine, ours = own[d], common[d]
        gradient[d] += slope * (mine + ours)
        sign = sparse if ours > zero else (-sparse if ours < zero else zero)
        away, toward = pull * (mine - ours), slope * vector[d]
        own[d] = mine - rate * (toward - away)
        common[d] = ours - rate * (toward + away + sign)


@compiled(fastmath=_FAST, error_model="numpy")
def additive_descent(  # type: ignore[no-untyped-def]
    row_TSBW,
    label_TSBW,
    weight_SBW,
    samples_B,
    own_BRD,
    common_BRD,
    vector_BD,
    bias_B,
    model_rate,
    item_rate,
    apart,
    sparse,
    on_probabilities,
    constants,
):
    """Trains in place and returns the sum of the losses over samples and epochs.

    `apart` and `sparse` are the weights of mean squares and of mean absolute values in the loss.
    """
    epochs, _, clients, batch = row_TSBW.shape
    zero, one, floor = constants[0], constants[1], constants[2]
    width = one * vector_BD.shape[1]
    loss_sum = 0.0
    gradient = np.empty(vector_BD.shape[1], vector_BD.dtype)
    slope = np.zeros(own_BRD.shape[1], vector_BD.dtype)  # of a row, summed over its samples
    count = np.zeros(own_BRD.shape[1], vector_BD.dtype)
    logits = np.empty(own_BRD.shape[1], vector_BD.dtype)
    term = np.empty(own_BRD.shape[1], vector_BD.dtype)
    distinct = np.empty(batch, np.int64)
    for b in range(clients):
        own, common, vector = own_BRD[b], common_BRD[b], vector_BD[b]
        for epoch in range(epochs):
            for step in range(-(-samples_B[b] // batch)):
                size = min(batch, samples_B[b] - step * batch)
                share = weight_SBW[step, b, 0]
                rows, product = 0, 1.0
                for t in range(size):
                    row = row_TSBW[epoch, step, b, t]
                    if count[row] == zero:
                        logit, square, absolute = _read_row(own[row], common[row], vector, zero)
                        logits[row] = logit + bias_B[b]
                        term[row] = (sparse * absolute - apart * square) / width
                        distinct[rows] = row
                        rows += 1
                    logit = logits[row]
                    label = label_TSBW[epoch, step, b, t]
                    decay = np.exp(-logit)
                    loss_sum += term[row]
                    # softplus(z) = z + log(1 + exp(-z)); one logarithm for sixteen samples
                    if logit > -40:
                        loss_sum += logit - label * logit
                        product *= 1.0 + np.float64(decay)
                    else:
                        loss_sum -= label * logit
                    if (t & 15) == 15:
                        loss_sum += np.log(product)
                        product = 1.0
                    slope[row] += _slope(decay, label, on_probabilities, one, floor) * share
                    count[row] += one
                loss_sum += np.log(product)
                gradient[:] = zero
                bias_gradient = zero
                for place in range(rows):
                    row = distinct[place]
                    bias_gradient += slope[row]
                    part = share * count[row] / width
                    _move_row(
                        own[row],
                        common[row],
                        vector,
                        gradient,
                        slope[row],
                        (one + one) * apart * part,
                        sparse * part,
                        item_rate,
                        zero,
                    )
                    slope[row], count[row] = zero, zero
                for d in range(len(gradient)):
                    vector[d] -= model_rate * gradient[d]
                bias_B[b] -= model_rate * bias_gradient
    return loss_sum
