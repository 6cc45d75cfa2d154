"""One client's whole round in one pass: draw, shuffle, local descent, for perceptrons.

Users are cut into chunks and sums are kept as in `linear_cpu`; a chunk is one call, which Python's
threads make side by side.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import client_keys, draw_client
from tacit.engines.kernels.linear_cpu import _FAST, ALTERNATE, ITEMS_ONLY, MODEL_ONLY, _dot, _pull
from tacit.engines.kernels.perceptron_pass import (
    add_user_half,
    backward,
    forward,
    make_scratch,
    set_shift,
    set_slopes,
)


@compiled(fastmath=_FAST, error_model="numpy")
def _gradients(  # type: ignore[no-untyped-def]
    net,
    widths,
    vector,
    has_user,
    rows,
    where,
    labels,
    share,
    on_probabilities,
    constants,
    moves_net,
    moves_rows,
    scratch,
    gradient,
    vector_gradient,
    on_row,
):
    """Gradients of one batch's mean loss, and the sum of its losses; `on_row` is per sample."""
    zero, one, floor = constants[0], constants[1], constants[2]
    size, tile = len(where), len(scratch.x)
    set_shift(net, widths, vector, has_user, scratch.shift)
    if moves_net:
        gradient[:] = zero
    loss = 0.0
    for low in range(0, size, tile):
        n = min(tile, size - low)
        x = scratch.x[:n]
        for t in range(n):
            row = where[low + t]
            for d in range(widths[0]):
                x[t, d] = rows[row, d]
        logit = forward(net, widths, x, x, False, scratch, zero)
        loss += set_slopes(
            logit, labels[low : low + n], share, on_probabilities, one, floor, scratch.slope
        )
        on_x = on_row[low : low + n]
        backward(net, widths, x, scratch, gradient, on_x, moves_net, moves_rows, zero)
    if moves_net and has_user:
        add_user_half(net, widths, vector, gradient, vector_gradient, zero)
    return loss


@compiled(fastmath=_FAST, error_model="numpy")
def _clip_scale(  # type: ignore[no-untyped-def]
    bound,
    where,
    first,
    moves_net,
    has_user,
    moves_rows,
    gradient,
    vector_gradient,
    on_row,
    constants,
):
    """The factor that bounds the norm of all gradients together; one row's samples are summed."""
    zero, one = constants[0], constants[1]
    square = zero
    if moves_net:
        square += _dot(gradient, gradient, len(gradient))
        if has_user:
            square += _dot(vector_gradient, vector_gradient, len(vector_gradient))
    if moves_rows:
        for t in range(len(where)):
            row = where[t]
            if first[row] < 0:
                first[row] = t
                continue
            for d in range(on_row.shape[1]):
                on_row[first[row], d] += on_row[t, d]
                on_row[t, d] = zero
        for t in range(len(where)):
            first[where[t]] = -1
            square += _dot(on_row[t], on_row[t], on_row.shape[1])
    norm = np.sqrt(square)
    return bound / norm if norm > bound else one


@compiled(fastmath=_FAST, error_model="numpy", nogil=True)
def perceptron_chunk(  # type: ignore[no-untyped-def]
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
    widths,
    net_PN,
    is_shared,
    vector_UD,
    has_user,
    tuned_start,
    tuned_count,
    tuned_item,
    tuned_value,
    has_tuned,
    total_CID,
    total_CN,
    loss_C,
):
    """Rounds of one chunk's clients; vectors, own tables and tuned rows are written in place.

    `net_PN` holds the clients' networks in the order of `users`, and is written in place; where the
    network is shared it has one row, which everybody copies, and changes go to `total_CN`. `guide`
    and `share_K` are those of `linear_rounds`.
    """
    width, zero, one = widths[0], constants[0], constants[1]
    blocked = np.zeros(n_items, np.uint8)
    place = np.full(n_items, -1, np.int64)
    longest = 1
    for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
        longest = max(longest, samples[k])
    items = np.empty(longest, np.int64)
    labels = np.empty(longest, np.uint8)
    room = min(n_items, longest * epochs)
    rows = np.empty((room, width), net_PN.dtype)
    touched = np.empty(room, np.int64)
    first = np.full(room, -1, np.int64)
    pulled = np.empty(room, np.int64)  # steps that the pull has made on a row
    largest = min(batch, longest)
    row_of = np.empty(largest, np.int64)
    on_row = np.empty((largest, width), net_PN.dtype)
    net = np.empty(net_PN.shape[1], net_PN.dtype)
    gradient = np.empty(net_PN.shape[1], net_PN.dtype)
    vector_gradient = np.empty(width, net_PN.dtype)
    scratch = make_scratch(widths, largest, net)
    loss_sum = 0.0
    for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
        user = users[k]
        positives = positive_item[positive_start[user] : positive_start[user + 1]]
        hidden = hidden_item[hidden_start[user] : hidden_start[user + 1]]
        vector = vector_UD[user] if has_user else vector_UD[0]
        start = net_PN[0] if is_shared else net_PN[k]
        net[:] = start
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
                where, on_where = row_of[:size], on_row[:size]
                for t in range(size):
                    item = items[low + t]
                    row = place[item]
                    if row < 0:
                        row = count
                        place[item] = row
                        touched[row] = item
                        count += 1
                        pulled[row] = 0
                        source = own[user, item] if has_own else table[item]
                        for d in range(width):
                            rows[row, d] = source[d]
                    if guide is not None and pulled[row] < done:
                        _pull(rows[row], guide[item], share_K[done - pulled[row]])
                        pulled[row] = done
                    where[t] = row
                for phase in range(2 if mode == ALTERNATE else 1):
                    moves_net = mode != ITEMS_ONLY and phase == 0
                    moves_rows = mode != MODEL_ONLY and not (mode == ALTERNATE and phase == 0)
                    loss = _gradients(
                        net,
                        widths,
                        vector,
                        has_user,
                        rows,
                        where,
                        labels[low : low + size],
                        share_of_size[size],
                        on_probabilities,
                        constants,
                        moves_net,
                        moves_rows,
                        scratch,
                        gradient,
                        vector_gradient,
                        on_where,
                    )
                    if phase == 0:
                        loss_sum += loss
                    scale = one
                    if gradient_clip > zero:
                        scale = _clip_scale(
                            gradient_clip,
                            where,
                            first,
                            moves_net,
                            has_user,
                            moves_rows,
                            gradient,
                            vector_gradient,
                            on_where,
                            constants,
                        )
                    if moves_net:
                        for i in range(len(net)):
                            net[i] -= model_rate * (scale * gradient[i])
                        if has_user:
                            for d in range(width):
                                vector[d] -= model_rate * (scale * vector_gradient[d])
                    if moves_rows:
                        done += 1
                        if guide is not None:
                            for t in range(size):
                                row = where[t]
                                if pulled[row] < done:  # once, however often it was drawn
                                    _pull(rows[row], guide[touched[row]], share_K[1])
                                    pulled[row] = done
                        step = item_rate * scale
                        for t in range(size):
                            row = where[t]
                            for d in range(width):
                                rows[row, d] -= step * on_where[t, d]
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
            if is_shared:
                for i in range(len(net)):
                    change = np.float64(net[i] - start[i])
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
        if is_shared and factor != 0.0:
            for i in range(len(net)):
                total_CN[chunk, i] += factor * (net[i] - start[i])
        if not is_shared:
            start[:] = net
        for r in range(count):
            item = touched[r]
            place[item] = -1
            if has_own:
                for d in range(width):
                    own[user, item, d] = rows[r, d]
            if has_tuned:
                tuned_item[tuned_start[user] + r] = item
                for d in range(width):
                    tuned_value[tuned_start[user] + r, d] = rows[r, d]
        if has_tuned:
            tuned_count[user] = count
    loss_C[chunk] = loss_sum
