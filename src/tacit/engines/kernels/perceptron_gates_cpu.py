"""FedRKG's guidance of one client in one pass, for perceptrons: train the gate, mix the table.

The same numbers as `tacit.engines.guidance`, which is the readable form.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import client_keys, draw_client
from tacit.engines.kernels.gates_cpu import mix_table
from tacit.engines.kernels.linear_cpu import _FAST, _dot
from tacit.engines.kernels.perceptron_pass import (
    backward,
    forward,
    make_scratch,
    set_shift,
    set_slopes,
)


@compiled(fastmath=_FAST, error_model="numpy", nogil=True)
def guide_perceptron_chunk(  # type: ignore[no-untyped-def]
    chunk,
    chunk_start,
    users,
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
    tolerance,
    beta,
    constants,
    share_of_size,
    on_probabilities,
    table,
    own,
    gate_UG,
    gate_bias_U,
    widths,
    net_PN,
    vector_UD,
    has_user,
):
    """One chunk of clients; gates and personal tables are written in place.

    `gate_UG` is [own; global; difference].
    """
    width = widths[0]
    zero, one, floor = constants[0], constants[1], constants[2]
    pull = (one + one) * (one - beta)
    blocked = np.zeros(n_items, np.uint8)
    longest = 1
    for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
        longest = max(longest, samples[k])
    items = np.empty(longest, np.int64)
    labels = np.empty(longest, np.uint8)
    scratch = make_scratch(widths, min(batch, longest), net_PN)
    tile = len(scratch.x)
    opened = np.empty(tile, net_PN.dtype)
    on_x = np.empty((tile, width), net_PN.dtype)
    on_own = np.empty(width, net_PN.dtype)  # the gate's weights as it sees P and G alone
    on_global = np.empty(width, net_PN.dtype)
    own_gradient = np.empty(width, net_PN.dtype)
    global_gradient = np.empty(width, net_PN.dtype)
    for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
        user, net = users[k], net_PN[k]
        positives = positive_item[positive_start[user] : positive_start[user + 1]]
        hidden = hidden_item[hidden_start[user] : hidden_start[user + 1]]
        gate = gate_UG[user]
        set_shift(net, widths, vector_UD[user if has_user else 0], has_user, scratch.shift)
        before = np.inf
        for epoch in range(epochs):
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
            loss = 0.0
            for low in range(0, n, batch):
                size = min(batch, n - low)
                for d in range(width):
                    on_own[d] = gate[d] + gate[2 * width + d]
                    on_global[d] = gate[width + d] - gate[2 * width + d]
                    own_gradient[d] = zero
                    global_gradient[d] = zero
                bias_gradient = zero
                for begin in range(low, low + size, tile):
                    end = min(begin + tile, low + size)
                    x = scratch.x[: end - begin]
                    for t in range(end - begin):
                        own_row, row = own[user, items[begin + t]], table[items[begin + t]]
                        opening = gate_bias_U[user] + _dot(own_row, on_own, width)
                        opening += _dot(row, on_global, width)
                        opened[t] = one / (one + np.exp(-opening))
                        for d in range(width):
                            x[t, d] = beta * own_row[d] + pull * opened[t] * row[d]
                    logit = forward(net, widths, x, x, False, scratch, zero)
                    loss += set_slopes(
                        logit,
                        labels[begin:end],
                        share_of_size[size],
                        on_probabilities,
                        one,
                        floor,
                        scratch.slope,
                    )
                    backward(net, widths, x, scratch, net, on_x[: len(x)], False, True, zero)
                    for t in range(end - begin):
                        own_row, row = own[user, items[begin + t]], table[items[begin + t]]
                        step = pull * opened[t] * (one - opened[t])
                        step *= _dot(on_x[t], row, width)
                        bias_gradient += step
                        for d in range(width):
                            own_gradient[d] += step * own_row[d]
                            global_gradient[d] += step * row[d]
                for d in range(width):
                    gate[d] -= rate * own_gradient[d]
                    gate[width + d] -= rate * global_gradient[d]
                    gate[2 * width + d] -= rate * (own_gradient[d] - global_gradient[d])
                gate_bias_U[user] -= rate * bias_gradient
            if abs(before - loss) < tolerance * min(before, 1e300):
                break
            before = loss
        mix_table(own[user], table, gate, gate_bias_U[user], beta, pull, on_own, on_global, one)
