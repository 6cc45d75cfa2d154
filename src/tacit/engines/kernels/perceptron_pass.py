"""Forward and backward pass of one client's perceptron over a tile of samples.

A network is one flat array: for every layer its weights (in, out) and its biases, then the half of
the first layer that multiplies the user's vector. That half is the same for all samples, so it and
the first biases are added up once, into `shift`. Matrix products are BLAS's; a tile is so small
that BLAS never starts threads of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.linear_cpu import _FAST, _slope

_TILE = 256  # samples: their layers stay in cache
_BLAS_ALONE = 2**18  # multiplications of a product up to which BLAS stays on one thread


class Scratch(NamedTuple):
    """Room for one tile, lent to every pass of a thread."""

    x: np.ndarray  # (tile, D), the rows that go in
    hidden: np.ndarray  # outputs of all hidden layers, one after another
    logit: np.ndarray  # (tile,)
    slope: np.ndarray  # (tile,), of the loss by the logit
    delta: np.ndarray  # (2, tile · widest), of the loss by one layer's output, and the next one's
    part: np.ndarray  # a tile's share of one layer's gradient
    shift: np.ndarray  # what the user's vector and the first biases add to the first layer


@compiled(error_model="numpy")
def make_scratch(widths, samples, like):  # type: ignore[no-untyped-def]
    """Room for tiles of at most `samples` samples; `like` is any array of the right kind."""
    largest = 1
    for layer in range(len(widths) - 1):
        largest = max(largest, widths[layer] * widths[layer + 1])
    tile = max(1, min(samples, _TILE, _BLAS_ALONE // largest))
    return Scratch(
        np.empty((tile, widths[0]), like.dtype),
        np.empty(tile * widths[1:-1].sum(), like.dtype),
        np.empty(tile, like.dtype),
        np.empty(tile, like.dtype),
        np.empty((2, tile * widths.max()), like.dtype),
        np.empty(largest, like.dtype),
        np.empty(widths[1], like.dtype),
    )


@compiled(fastmath=_FAST, error_model="numpy")
def set_shift(net, widths, vector, has_user, shift):  # type: ignore[no-untyped-def]
    """shift = b0 + vector · (the user's half of the first layer)."""
    ins, outs = widths[0], widths[1]
    for j in range(outs):
        shift[j] = net[ins * outs + j]
    if has_user:
        half = net[len(net) - ins * outs :].reshape(ins, outs)
        for d in range(ins):
            for j in range(outs):
                shift[j] += vector[d] * half[d, j]


@compiled(fastmath=_FAST, error_model="numpy")
def forward(net, widths, x, first, has_first, scratch, zero):  # type: ignore[no-untyped-def]
    """The logits of the rows `x`, as a view into the scratch.

    With `has_first` the rows' products with the first layer are known already: `first`.
    """
    n, top, start, at = len(x), len(widths) - 2, 0, 0
    tile = len(scratch.x)
    below = x
    for layer in range(top):
        ins, outs = widths[layer], widths[layer + 1]
        out = scratch.hidden[at : at + n * outs].reshape(n, outs)
        if layer == 0 and has_first:
            out[:] = first
        else:
            np.dot(below, net[start : start + ins * outs].reshape(ins, outs), out)
        start += ins * outs
        bias = scratch.shift if layer == 0 else net[start : start + outs]
        for t in range(n):
            for j in range(outs):
                value = out[t, j] + bias[j]
                out[t, j] = value if value > zero else zero
        start += outs
        at += tile * outs
        below = out
    logit = scratch.logit[:n]
    if top == 0 and has_first:
        logit[:] = first[:, 0]
    else:
        np.dot(below, net[start : start + widths[top]], logit)
    bias = scratch.shift if top == 0 else net[start + widths[top] :]
    for t in range(n):
        logit[t] += bias[0]
    return logit


@compiled(fastmath=_FAST, error_model="numpy")
def set_slopes(logit, labels, share, on_probabilities, one, floor, slope):  # type: ignore[no-untyped-def]
    """Slopes of the mean loss by the logits; returns the sum of the losses."""
    loss, product = 0.0, 1.0
    for t in range(len(logit)):
        label = one if labels[t] else one - one
        decay = np.exp(-logit[t])
        # softplus(z) = z + log(1 + exp(-z)); one logarithm for sixteen samples
        if logit[t] > -40:
            loss += logit[t] - label * logit[t]
            product *= 1.0 + np.float64(decay)
        else:
            loss -= label * logit[t]
        if (t & 15) == 15:
            loss += np.log(product)
            product = 1.0
        slope[t] = _slope(decay, label, on_probabilities, one, floor) * share
    return loss + np.log(product)


@compiled(fastmath=_FAST, error_model="numpy")
def backward(net, widths, x, scratch, gradient, on_x, moves_net, moves_rows, zero):  # type: ignore[no-untyped-def]
    """From the slopes down: adds to the layers' `gradient`, writes that of the rows to `on_x`.

    The user's half has none here: `add_user_half` makes it from that of the first biases.
    """
    n, top, tile = len(x), len(widths) - 2, len(scratch.x)
    start = 0  # of a layer's parameters
    for layer in range(top):
        start += (widths[layer] + 1) * widths[layer + 1]
    at = tile * widths[1 : top + 1].sum()  # where a layer's outputs end
    slope, ins = scratch.slope[:n], widths[top]
    at -= tile * ins
    below = scratch.hidden[at : at + n * ins].reshape(n, ins) if top else x
    if moves_net:
        part = scratch.part[:ins]
        np.dot(below.T, slope, part)
        for i in range(ins):
            gradient[start + i] += part[i]
        for t in range(n):
            gradient[start + ins] += slope[t]
    if top == 0 and not moves_rows:
        return
    delta = scratch.delta[top & 1, : n * ins].reshape(n, ins) if top else on_x
    for t in range(n):
        for i in range(ins):
            delta[t, i] = slope[t] * net[start + i]
    for layer in range(top - 1, -1, -1):
        ins, outs = widths[layer], widths[layer + 1]
        # below is this layer's output: nothing passes where it was cut off
        for t in range(n):
            for j in range(outs):
                delta[t, j] = delta[t, j] if below[t, j] > zero else zero
        start -= (ins + 1) * outs
        at -= tile * ins
        below = scratch.hidden[at : at + n * ins].reshape(n, ins) if layer else x
        weights = net[start : start + ins * outs].reshape(ins, outs)
        if moves_net:
            part = scratch.part[: ins * outs]
            np.dot(below.T, delta, part.reshape(ins, outs))
            for i in range(ins * outs):
                gradient[start + i] += part[i]
            bias = gradient[start + ins * outs : start + (ins + 1) * outs]
            for t in range(n):
                for j in range(outs):
                    bias[j] += delta[t, j]
        if layer == 0:
            if moves_rows:
                np.dot(delta, weights.T, on_x)
            return
        after = scratch.delta[layer & 1, : n * ins].reshape(n, ins)
        np.dot(delta, weights.T, after)
        delta = after


@compiled(fastmath=_FAST, error_model="numpy")
def add_user_half(net, widths, vector, gradient, vector_gradient, zero):  # type: ignore[no-untyped-def]
    """Gradients of the user's half of the first layer and of the user's vector."""
    ins, outs = widths[0], widths[1]
    on_bias = gradient[ins * outs : ins * outs + outs]
    half = net[len(net) - ins * outs :].reshape(ins, outs)
    on_half = gradient[len(net) - ins * outs :].reshape(ins, outs)
    for d in range(ins):
        total = zero
        for j in range(outs):
            on_half[d, j] = vector[d] * on_bias[j]
            total += half[d, j] * on_bias[j]
        vector_gradient[d] = total
