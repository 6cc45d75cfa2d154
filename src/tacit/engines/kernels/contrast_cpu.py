"""Local descent of a block of clients whose rows a contrast draws together, for linear scorers."""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.contrast_slope import contrast_slope
from tacit.engines.kernels.linear_cpu import _FAST, _dot, _slope


@compiled(fastmath=_FAST, error_model="numpy")
def contrast_descent(  # type: ignore[no-untyped-def]
    row_TSBW,
    label_TSBW,
    weight_SBW,
    samples_B,
    user_B,
    own_UID,
    vector_BD,
    bias_B,
    model_rate,
    item_rate,
    on_probabilities,
    constants,
    contrast,
    has_contrast,
    weight,
    inverse,
    exponential,
):
    """Trains in place, the scorer and then the rows of each batch; returns the sum of the losses.

    `weight` is that of the contrast's sum over items, `inverse` one over its temperature.
    """
    epochs, _, clients, batch = row_TSBW.shape
    zero, one, floor = constants[0], constants[1], constants[2]
    tiny, least = constants[3], constants[4]
    width = vector_BD.shape[1]
    gradient = np.empty(width, vector_BD.dtype)
    slope = np.empty(batch, vector_BD.dtype)
    loss_sum = 0.0
    for b in range(clients):
        own, vector = own_UID[user_B[b]], vector_BD[b]
        for epoch in range(epochs):
            for step in range(-(-samples_B[b] // batch)):
                size = min(batch, samples_B[b] - step * batch)
                where = row_TSBW[epoch, step, b, :size]
                labels = label_TSBW[epoch, step, b, :size]
                share = weight_SBW[step, b, 0]
                gradient[:] = zero
                bias_gradient, product = zero, 1.0
                for t in range(size):
                    row, label = own[where[t]], labels[t]
                    logit = _dot(row, vector, width) + bias_B[b]
                    decay = np.exp(-logit)
                    # softplus(z) = z + log(1 + exp(-z)); one logarithm for sixteen samples
                    if logit > -40:
                        loss_sum += logit - label * logit
                        product *= 1.0 + np.float64(decay)
                    else:
                        loss_sum -= label * logit
                    if (t & 15) == 15:
                        loss_sum += np.log(product)
                        product = 1.0
                    part = _slope(decay, label, on_probabilities, one, floor) * share
                    bias_gradient += part
                    for d in range(width):
                        gradient[d] += part * row[d]
                loss_sum += np.log(product)
                for d in range(width):
                    vector[d] -= model_rate * gradient[d]
                bias_B[b] -= model_rate * bias_gradient
                for t in range(size):
                    decay = np.exp(-(_dot(own[where[t]], vector, width) + bias_B[b]))
                    slope[t] = _slope(decay, labels[t], on_probabilities, one, floor) * share
                if has_contrast:  # of the rows as they are: before anything moves them
                    contrast_slope(own, contrast, inverse, tiny, least, exponential)
                for t in range(size):
                    row, way = own[where[t]], item_rate * slope[t]
                    for d in range(width):
                        row[d] -= way * vector[d]
                if has_contrast:
                    for s in range(len(contrast.item_S)):
                        row, drawn = own[contrast.item_S[s]], contrast.slope_SD[s]
                        for d in range(width):
                            row[d] -= item_rate * (weight * drawn[d])
    return loss_sum
