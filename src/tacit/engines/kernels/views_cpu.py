"""One client's whole round on views of items that stand still: draw, shuffle, local descent.

The scorer θ is linear, and the reader's weights w mix the views: logit_i = Σ_v w_v θ·F_vi + b. So a
row of views meets one vector c = w ⊗ θ, and one sum E = Σ slope · row holds the slopes of both θ
and w. Users are cut into chunks and sums are kept as in `linear_cpu`; what is summed here are
gradients of the views.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import client_keys, draw_client
from tacit.engines.kernels.linear_cpu import _FAST, _dot, _slope
from tacit.engines.kernels.router_pass import (
    activate,
    begin_history,
    keep_for_views,
    make_history,
    read_history,
    settle,
    step_router,
    take_slopes,
    weigh,
)


@compiled(fastmath=_FAST, error_model="numpy")
def _mixed(vector, weight, mixed):  # type: ignore[no-untyped-def]
    """c = w ⊗ θ."""
    for v in range(len(weight)):
        for d in range(len(vector)):
            mixed[v * len(vector) + d] = weight[v] * vector[d]


@compiled(fastmath=_FAST, error_model="numpy")
def _read_batch(  # type: ignore[no-untyped-def]
    view_IW, items, labels, mixed, bias, share, on_probabilities, constants, slope, summed
):
    """Slopes by the logits and their sum E over rows; returns the loss and the sum of slopes."""
    zero, one, floor = constants[0], constants[1], constants[2]
    width = len(mixed)
    loss, product, total = 0.0, 1.0, zero
    summed[:] = zero
    for t in range(len(items)):
        row = view_IW[items[t]]
        logit = _dot(row, mixed, width) + bias
        label = one if labels[t] else zero
        decay = np.exp(-logit)
        # softplus(z) = z + log(1 + exp(-z)); one logarithm for sixteen samples
        if logit > -40:
            loss += logit - label * logit
            product *= 1.0 + np.float64(decay)
        else:
            loss -= label * logit
        if (t & 15) == 15:
            loss += np.log(product)
            product = 1.0
        step = _slope(decay, label, on_probabilities, one, floor) * share
        slope[t] = step
        total += step
        for j in range(width):
            summed[j] += step * row[j]
    return loss + np.log(product), total


@compiled(fastmath=_FAST, error_model="numpy", nogil=True)
def views_chunk(  # type: ignore[no-untyped-def]
    chunk,
    chunk_start,
    users,
    weights,
    samples,
    seed,
    round_number,
    redraw,
    user_keys,
    positive_start,
    positive_item,
    hidden_start,
    hidden_item,
    n_items,
    n_negatives,
    epochs,
    batch,
    rate,
    constants,
    share_of_size,
    alternates,
    last_alone,
    on_probabilities,
    view_IW,
    vector_UD,
    bias_U,
    has_bias,
    softmaxes,
    first_UWK,
    shift_UK,
    second_UKV,
    offset_UV,
    has_router,
    total_CIW,
    loss_C,
):
    """Rounds of one chunk's clients; scorers and routers are written in place.

    `alternates`: a step of what is private, then the gradients of the views under it; otherwise
    both from one pass. `last_alone`: only the last batch's gradients of the views are sent.
    """
    zero, one = constants[0], constants[1]
    width, dim, hidden = view_IW.shape[1], vector_UD.shape[1], shift_UK.shape[1]
    count = width // dim
    blocked = np.zeros(n_items, np.uint8)
    longest, oldest = 1, 1
    for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
        longest = max(longest, samples[k])
        oldest = max(oldest, positive_start[users[k] + 1] - positive_start[users[k]])
    items = np.empty(longest, np.int64)
    labels = np.empty(longest, np.uint8)
    slope = np.empty(min(batch, longest), view_IW.dtype)
    mixed = np.empty(width, view_IW.dtype)
    sent = np.empty(width, np.float64)
    summed = np.empty(width, view_IW.dtype)
    alone = np.ones(1, view_IW.dtype)
    on_weight = np.empty(count, view_IW.dtype)
    history = make_history(oldest if has_router else 1, width, hidden, count, view_IW)
    weight = history.weight[0] if has_router else alone
    total_IW, loss_sum = total_CIW[chunk], 0.0
    for p in range(chunk_start[chunk], chunk_start[chunk + 1]):
        user, factor = users[p], weights[p]
        positives = positive_item[positive_start[user] : positive_start[user + 1]]
        hidden_items = hidden_item[hidden_start[user] : hidden_start[user + 1]]
        if len(positives) == 0:
            continue
        router = user if has_router else 0
        vector, first, second = vector_UD[user], first_UWK[router], second_UKV[router]
        shift, offset = shift_UK[router], offset_UV[router]
        n_past, direct, share = 0, True, one
        if has_router:
            n_past = read_history(view_IW, positives, blocked, history)
            share = one / view_IW.dtype.type(n_past)
            steps = epochs * ((samples[p] + batch - 1) // batch)
            saved = 3 * (steps - 1) * width * hidden
            direct = n_past * (width + 2 * steps * hidden) > saved
            begin_history(n_past, direct, zero, history)
            activate(first, shift, n_past, history)
        for epoch in range(epochs):
            negative_key, shuffle_key = client_keys(
                seed, round_number, epoch, redraw, user_keys[user]
            )
            n = draw_client(
                negative_key,
                shuffle_key,
                positives,
                hidden_items,
                n_items,
                n_negatives,
                items,
                labels,
                blocked,
            )
            for low in range(0, n, batch):
                size = min(batch, n - low)
                is_last = epoch == epochs - 1 and low + size == n
                sends = factor != 0.0 and (is_last or not last_alone)
                for phase in range(2 if alternates else 1):
                    moves, gives = phase == 0, sends and (phase == 1 or not alternates)
                    if not moves and not gives:
                        continue
                    if has_router:
                        weigh(second, offset, softmaxes, n_past, share, zero, history)
                    _mixed(vector, weight, mixed)
                    loss, on_bias = _read_batch(
                        view_IW,
                        items[low : low + size],
                        labels[low : low + size],
                        mixed,
                        bias_U[user] if has_bias else zero,
                        share_of_size[size],
                        on_probabilities,
                        constants,
                        slope,
                        summed,
                    )
                    if moves:
                        loss_sum += loss
                    if has_router:
                        for v in range(count):
                            on_weight[v] = _dot(summed[v * dim : (v + 1) * dim], vector, dim)
                        take_slopes(second, softmaxes, n_past, share, zero, on_weight, history)
                    if gives:
                        for j in range(width):
                            sent[j] = factor * mixed[j]
                        for t in range(size):
                            step = np.float64(slope[t])
                            total = total_IW[items[low + t]]
                            for j in range(width):
                                total[j] += step * sent[j]
                        if has_router:
                            keep_for_views(n_past, direct, history)
                    if moves:
                        for v in range(count):
                            move = rate * weight[v]
                            for d in range(dim):
                                vector[d] -= move * summed[v * dim + d]
                        if has_bias:
                            bias_U[user] -= rate * on_bias
                        if has_router:
                            step_router(
                                second, offset, shift, rate, n_past, direct, on_weight, history
                            )
                            if direct:
                                settle(first, rate, n_past, direct, factor, zero, total_IW, history)
                                if alternates or not is_last:
                                    activate(first, shift, n_past, history)
        if has_router and (alternates or not direct):
            settle(first, rate, n_past, direct, factor, zero, total_IW, history)
    loss_C[chunk] = loss_sum
