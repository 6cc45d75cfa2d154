"""One client's whole round in one pass: draw, shuffle, local descent, for linear scorers.

A client's rows stay in cache, which is where the speed comes from. Users are cut into chunks that
do not depend on the number of threads; each chunk sums its clients' changes in a fixed order in
float64, and chunks are added in order. So one thread and many agree bit for bit.
"""

from __future__ import annotations

import numba
import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import client_keys, draw_client

# Reassociation lets the dot products vectorise; NaN and infinity keep their meaning.
_FAST = {"contract", "arcp", "nsz", "reassoc"}


@compiled(fastmath=_FAST, error_model="numpy", inline="always")
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = a[0] * b[0]
    for d in range(1, n):
        total += a[d] * b[d]
    return total


@compiled(fastmath=_FAST, error_model="numpy", inline="always")
def _slope(decay, label, on_probabilities, one, floor):  # type: ignore[no-untyped-def]
    """The derivative of the loss by the logit; `decay` is exp(-logit)."""
    probability = one / (one + decay)
    slope = probability - label
    if on_probabilities:
        product = probability * (one - probability)
        if product < floor:
            slope *= product / floor
    return slope


@compiled(fastmath=_FAST, error_model="numpy", inline="always")
def _pull(row, guide, share):  # type: ignore[no-untyped-def]
    """A part of the way to the guide."""
    for d in range(len(row)):
        row[d] -= share * (row[d] - guide[d])


# What moves in a batch: everything at once, the scorer then the rows, or one of them alone.
JOINT, ALTERNATE, MODEL_ONLY, ITEMS_ONLY = 0, 1, 2, 3


@compiled(fastmath=_FAST, error_model="numpy", inline="always")
def _row_square(slope, where, size, row_slope, zero):  # type: ignore[no-untyped-def]
    """Sum over distinct rows of (sum of slopes)²: a row's gradient is that sum times the vector."""
    for t in range(size):
        row_slope[where[t]] += slope[t]
    square = zero
    for t in range(size):
        summed = row_slope[where[t]]
        square += summed * summed
        row_slope[where[t]] = zero
    return square


@compiled(fastmath=_FAST, error_model="numpy", parallel=True)
def linear_rounds(  # type: ignore[no-untyped-def]
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
    model_rate,
    item_rate,
    constants,
    share_of_size,
    modes,
    gradient_clip,
    on_probabilities,
    clip_order,
    clip_bound,
    table,
    own,
    has_own,
    guide,
    share_K,
    vector_UD,
    bias_U,
    has_bias,
    tuned_start,
    tuned_count,
    tuned_item,
    tuned_value,
    has_tuned,
    total_CID,
    loss_C,
):
    """Rounds of all clients; private leaves, own tables and tuned rows are written in place.

    With a `guide` every step of the rows pulls to it, and `share_K[k]` is the part of the way that
    k steps of the pull alone make; a row owes its steps until it is read or the round ends. Sums
    are then of what the samples change: the pull alone is the same for all rows of the table.
    Where the guide is None, numba leaves these lines out.
    """
    width = vector_UD.shape[1]
    # numbers of the tables' own kind: numba computes float32 with an integer in float64
    zero, one, floor = constants[0], constants[1], constants[2]
    for chunk in numba.prange(len(chunk_start) - 1):
        blocked = np.zeros(n_items, np.uint8)
        place = np.full(n_items, -1, np.int64)
        longest = 0
        for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
            longest = max(longest, samples[k])
        items = np.empty(longest, np.int64)
        labels = np.empty(longest, np.uint8)
        room = min(n_items, longest * epochs)
        rows = np.empty((room, width), vector_UD.dtype)
        touched = np.empty(room, np.int64)
        slope = np.empty(min(batch, longest), vector_UD.dtype)
        where = np.empty(min(batch, longest), np.int64)
        gradient = np.empty(width, vector_UD.dtype)
        pulled = np.empty(room, np.int64)  # steps that the pull has made on a row
        row_slope = np.zeros(room if gradient_clip > zero else 1, vector_UD.dtype)
        loss_sum = 0.0
        for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
            user = users[k]
            positives = positive_item[positive_start[user] : positive_start[user + 1]]
            hidden = hidden_item[hidden_start[user] : hidden_start[user + 1]]
            vector = vector_UD[user]
            count = 0
            done = 0
            for epoch in range(epochs):
                mode = modes[epoch]
                negative_key, shuffle_key = client_keys(
                    seed, round_number, epoch, redraw, user_keys[user]
                )
                n = draw_client(
                    negative_key,
                    shuffle_key,
                    positives,
                    hidden,
                    n_items,
                    n_negatives,
                    items,
                    labels,
                    blocked,
                )
                for low in range(0, n, batch):
                    size = min(batch, n - low)
                    share = share_of_size[size]
                    for d in range(width):
                        gradient[d] = zero
                    bias_gradient = zero
                    product = 1.0
                    for t in range(size):
                        item = items[low + t]
                        row = place[item]
                        if row < 0:
                            row = count
                            place[item] = row
                            touched[row] = item
                            count += 1
                            pulled[row] = 0
                            if has_own:
                                for d in range(width):
                                    rows[row, d] = own[user, item, d]
                            else:
                                for d in range(width):
                                    rows[row, d] = table[item, d]
                        if guide is not None and pulled[row] < done:
                            _pull(rows[row], guide[item], share_K[done - pulled[row]])
                            pulled[row] = done
                        where[t] = row
                        logit = _dot(rows[row], vector, width)
                        if has_bias:
                            logit += bias_U[user]
                        label = one if labels[low + t] else zero
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
                        step = _slope(decay, label, on_probabilities, one, floor) * share
                        slope[t] = step
                        bias_gradient += step
                        for d in range(width):
                            gradient[d] += step * rows[row, d]
                    loss_sum += np.log(product)
                    model_scale = one
                    if gradient_clip > zero:
                        square = zero
                        if mode != ITEMS_ONLY:
                            square += _dot(gradient, gradient, width)
                            if has_bias:
                                square += bias_gradient * bias_gradient
                        if mode in (JOINT, ITEMS_ONLY):
                            rows_square = _row_square(slope, where, size, row_slope, zero)
                            square += rows_square * _dot(vector, vector, width)
                        norm = np.sqrt(square)
                        if norm > gradient_clip:
                            model_scale = gradient_clip / norm
                    item_scale = model_scale
                    if mode == ALTERNATE:
                        for d in range(width):
                            vector[d] -= model_rate * (model_scale * gradient[d])
                        if has_bias:
                            bias_U[user] -= model_rate * (model_scale * bias_gradient)
                        for t in range(size):
                            logit = _dot(rows[where[t]], vector, width)
                            if has_bias:
                                logit += bias_U[user]
                            label = one if labels[low + t] else zero
                            decay = np.exp(-logit)
                            slope[t] = _slope(decay, label, on_probabilities, one, floor) * share
                        item_scale = one
                        if gradient_clip > zero:
                            square = _row_square(slope, where, size, row_slope, zero)
                            norm = np.sqrt(square * _dot(vector, vector, width))
                            if norm > gradient_clip:
                                item_scale = gradient_clip / norm
                    if mode != MODEL_ONLY:
                        done += 1
                        if guide is not None:
                            for t in range(size):
                                row = where[t]
                                if pulled[row] < done:  # once, however often it was drawn
                                    _pull(rows[row], guide[touched[row]], share_K[1])
                                    pulled[row] = done
                        for t in range(size):
                            step = item_rate * (item_scale * slope[t])
                            row = where[t]
                            for d in range(width):
                                rows[row, d] -= step * vector[d]
                    if mode in (JOINT, MODEL_ONLY):
                        for d in range(width):
                            vector[d] -= model_rate * (model_scale * gradient[d])
                        if has_bias:
                            bias_U[user] -= model_rate * (model_scale * bias_gradient)
            if guide is not None:
                for r in range(count):
                    if pulled[r] < done:
                        _pull(rows[r], guide[touched[r]], share_K[done - pulled[r]])
            factor = 1.0
            if clip_order > 0 and not has_own:  # an own table has no global one beside it
                norm = 0.0
                for r in range(count):
                    for d in range(width):
                        change = np.float64(rows[r, d] - table[touched[r], d])
                        norm += change * change if clip_order == 2 else abs(change)
                if clip_order == 2:
                    norm = np.sqrt(norm)
                if norm > clip_bound:
                    factor = clip_bound / norm
            factor *= weights[k]
            if not has_own and factor != 0.0:
                for r in range(count):
                    item = touched[r]
                    for d in range(width):
                        total_CID[chunk, item, d] += factor * (rows[r, d] - table[item, d])
                    if guide is not None:
                        alone = factor * share_K[done]
                        for d in range(width):
                            total_CID[chunk, item, d] -= alone * (guide[item, d] - table[item, d])
            if has_own:
                for r in range(count):
                    for d in range(width):
                        own[user, touched[r], d] = rows[r, d]
            if has_tuned:
                begin = tuned_start[user]
                for r in range(count):
                    tuned_item[begin + r] = touched[r]
                    for d in range(width):
                        tuned_value[begin + r, d] = rows[r, d]
                tuned_count[user] = count
            for r in range(count):
                place[touched[r]] = -1
        loss_C[chunk] = loss_sum
