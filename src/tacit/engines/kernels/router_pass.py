"""A private router over the views of a client's own history: forward, backward, and its steps.

The router is linear–ReLU–linear and its logits are averaged over the H items of the history, so
the slope of its first layer is one vector, masked by who is active. Views stand still in a round,
so the first layer moves only in the span of the H rows: with their products G = F Fᵀ known, the
activations F W follow every step without the layer itself, which is read and written once for the
whole round. Where histories are so long that G costs more than that saves, it is done step by step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.linear_cpu import _FAST

_BLAS_ALONE = 2**18  # multiplications of a product up to which BLAS stays on one thread

_inlined = compiled(fastmath=_FAST, error_model="numpy", inline="always")
_as_written = compiled(error_model="numpy")


class History(NamedTuple):
    """Room for one client's history, lent by a thread; H rows of it are in use."""

    item: np.ndarray  # (H,)
    row: np.ndarray  # (H, W), the views F
    active: np.ndarray  # (H, K), F W + b, the first layer before its ReLU
    slope: np.ndarray  # (H, K), of the loss by that
    moved: np.ndarray  # (H, K), slopes that the first layer has yet to move along
    sent: np.ndarray  # (H, K), slopes of which the views' gradients have yet to be taken
    gram: np.ndarray  # (H, H), F Fᵀ
    cross: np.ndarray  # (H, H), how steps of the first layer reach later gradients of views
    mean: np.ndarray  # (K,), of the active units over the history
    weight: np.ndarray  # (2, V), of the views: after the last softmax, and after the first
    logit: np.ndarray  # (V,), and room for its slope
    layer: np.ndarray  # (W, K), a step of the first layer
    back: np.ndarray  # (H, W), gradients of the views


@compiled(error_model="numpy")
def make_history(longest, width, hidden, count, like):  # type: ignore[no-untyped-def]
    """Room for histories of at most `longest` items; `like` is any array of the right kind."""
    short = min(longest, 2 * width)  # longer ones are done step by step
    return History(
        np.empty(longest, np.int64),
        np.empty((longest, width), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((short, short), like.dtype),
        np.empty((short, short), like.dtype),
        np.empty(hidden, like.dtype),
        np.empty((2, count), like.dtype),
        np.empty(count, like.dtype),
        np.empty((width, hidden), like.dtype),
        np.empty((longest, width), like.dtype),
    )


@_inlined
def read_history(view_IW, positives, blocked, history):  # type: ignore[no-untyped-def]
    """The distinct items of a history and their views; returns how many."""
    n = 0
    for item in positives:
        if blocked[item] == 0:
            blocked[item] = 1
            history.item[n] = item
            for j in range(view_IW.shape[1]):
                history.row[n, j] = view_IW[item, j]
            n += 1
    for h in range(n):
        blocked[history.item[h]] = 0
    return n


@compiled(fastmath=_FAST, error_model="numpy")
def _product(a, b, out):  # type: ignore[no-untyped-def]
    """out = a b, in pieces for which BLAS starts no threads of its own."""
    tile = max(1, _BLAS_ALONE // (b.shape[0] * b.shape[1]))
    for low in range(0, len(a), tile):
        np.dot(a[low : low + tile], b, out[low : low + tile])


@compiled(fastmath=_FAST, error_model="numpy")
def activate(first, shift, n, history):  # type: ignore[no-untyped-def]
    """The first layer's outputs from the layer itself."""
    _product(history.row[:n], first, history.active[:n])
    for h in range(n):
        for k in range(len(shift)):
            history.active[h, k] += shift[k]


@_as_written
def _softmax(value, out):  # type: ignore[no-untyped-def]
    top = value[0]
    for v in range(1, len(value)):
        top = max(top, value[v])
    total = np.exp(value[0] - top)
    out[0] = total
    for v in range(1, len(value)):
        out[v] = np.exp(value[v] - top)
        total += out[v]
    for v in range(len(value)):
        out[v] /= total


@compiled(fastmath=_FAST, error_model="numpy")
def weigh(second, offset, softmaxes, n, share, zero, history):  # type: ignore[no-untyped-def]
    """The weights of the views, into `history.weight[0]`; `share` is 1 / n."""
    mean, logit = history.mean, history.logit
    for k in range(len(mean)):
        mean[k] = max(history.active[0, k], zero)
    for h in range(1, n):
        for k in range(len(mean)):
            mean[k] += max(history.active[h, k], zero)
    for v in range(len(logit)):
        logit[v] = offset[v]
    for k in range(len(mean)):
        mean[k] *= share
        for v in range(len(logit)):
            logit[v] += mean[k] * second[k, v]
    _softmax(logit, history.weight[1])
    if softmaxes == 2:
        _softmax(history.weight[1], history.weight[0])
    else:
        history.weight[0] = history.weight[1]


@_as_written
def _through_softmax(weight, slope, zero, out):  # type: ignore[no-untyped-def]
    """Slopes by a softmax's outputs become those by its inputs, in place.

    w_v Σ_j w_j (s_v − s_j): where one weight is nearly 1, s_v − Σ_j w_j s_j would lose its digits.
    """
    for v in range(len(weight)):
        total = zero
        for j in range(len(weight)):
            total += weight[j] * (slope[v] - slope[j])
        out[v] = weight[v] * total
    slope[:] = out


@compiled(fastmath=_FAST, error_model="numpy")
def take_slopes(second, softmaxes, n, share, zero, on_weight, history):  # type: ignore[no-untyped-def]
    """From slopes by the weights, which become those by the logits, to the first layer's."""
    if softmaxes == 2:
        _through_softmax(history.weight[0], on_weight, zero, history.logit)
    _through_softmax(history.weight[1], on_weight, zero, history.logit)
    for k in range(len(second)):
        unit = zero
        for v in range(len(on_weight)):
            unit += second[k, v] * on_weight[v]
        unit *= share
        for h in range(n):
            history.slope[h, k] = unit if history.active[h, k] > zero else zero


@compiled(fastmath=_FAST, error_model="numpy")
def keep_for_views(n, direct, history):  # type: ignore[no-untyped-def]
    """Remember a gradient of the views: slope · (W − rate Fᵀ moved)ᵀ."""
    for h in range(n):
        for k in range(history.slope.shape[1]):
            history.sent[h, k] += history.slope[h, k]
    if direct:
        return  # the layer itself is up to date
    for h in range(n):
        for other in range(n):
            total = history.slope[h, 0] * history.moved[other, 0]
            for k in range(1, history.slope.shape[1]):
                total += history.slope[h, k] * history.moved[other, k]
            history.cross[h, other] += total


@compiled(fastmath=_FAST, error_model="numpy")
def step_router(second, offset, shift, rate, n, direct, on_logit, history):  # type: ignore[no-untyped-def]
    """One step of the router; the first layer's own is put off, its outputs follow."""
    mean, slope, active = history.mean, history.slope, history.active
    for k in range(len(mean)):
        for v in range(len(on_logit)):
            second[k, v] -= rate * mean[k] * on_logit[v]
    for v in range(len(on_logit)):
        offset[v] -= rate * on_logit[v]
    for k in range(len(mean)):
        mean[k] = slope[0, k]
    for h in range(1, n):
        for k in range(len(mean)):
            mean[k] += slope[h, k]
    for k in range(len(mean)):
        shift[k] -= rate * mean[k]
    for h in range(n):
        for k in range(len(mean)):
            history.moved[h, k] += slope[h, k]
    if direct:
        return
    for h in range(n):
        for k in range(len(mean)):
            active[h, k] -= rate * mean[k]
        for other in range(n):
            step = rate * history.gram[h, other]
            for k in range(len(mean)):
                active[h, k] -= step * slope[other, k]


@compiled(fastmath=_FAST, error_model="numpy")
def begin_history(n, direct, zero, history):  # type: ignore[no-untyped-def]
    """Nothing is put off yet; products of the rows are taken where they will be needed."""
    history.moved[:n] = zero
    history.sent[:n] = zero
    if direct:
        return
    history.cross[:n, :n] = zero
    for h in range(n):
        for other in range(h + 1):
            total = history.row[h, 0] * history.row[other, 0]
            for j in range(1, history.row.shape[1]):
                total += history.row[h, j] * history.row[other, j]
            history.gram[h, other] = total
            history.gram[other, h] = total


@compiled(fastmath=_FAST, error_model="numpy")
def settle(first, rate, n, direct, factor, zero, total_IW, history):  # type: ignore[no-untyped-def]
    """What was put off: gradients of the history's views go out, then the first layer moves."""
    row, back = history.row, history.back
    if factor != 0.0:
        _product(history.sent[:n], first.T, back[:n])
        for h in range(n):
            if not direct:
                for other in range(n):
                    step = rate * history.cross[h, other]
                    for j in range(row.shape[1]):
                        back[h, j] -= step * row[other, j]
            item = history.item[h]
            for j in range(row.shape[1]):
                total_IW[item, j] += factor * back[h, j]
    tile = max(1, _BLAS_ALONE // first.size)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        np.dot(row[low:high].T, history.moved[low:high], history.layer)
        for j in range(len(first)):
            for k in range(first.shape[1]):
                first[j, k] -= rate * history.layer[j, k]
    history.moved[:n] = zero
    history.sent[:n] = zero
