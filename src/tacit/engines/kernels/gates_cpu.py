"""FedRKG's guidance of one client in one pass, for linear scorers: train the gate, mix the table.

The same numbers as `tacit.engines.guidance`, which is the readable form. Clients are independent
and each is computed by one thread, so the number of threads changes nothing.
"""

from __future__ import annotations

import numba
import numpy as np

from tacit.compiled import compiled
from tacit.data.sampling import client_keys, draw_client
from tacit.engines.kernels.linear_cpu import _FAST, _dot, _slope


@compiled(fastmath=_FAST, error_model="numpy")
def mix_table(own_ID, table, gate, gate_bias, beta, pull, on_own, on_global, one):  # type: ignore[no-untyped-def]
    """P ← β P + 2(1 − β) g G of one client, in place; `pull` is 2(1 − β)."""
    width = own_ID.shape[1]
    for d in range(width):
        on_own[d] = gate[d] + gate[2 * width + d]
        on_global[d] = gate[width + d] - gate[2 * width + d]
    for item in range(len(own_ID)):
        own_row, row = own_ID[item], table[item]
        opening = gate_bias + _dot(own_row, on_own, width)
        opening += _dot(row, on_global, width)
        opened = pull / (one + np.exp(-opening))
        for d in range(width):
            own_row[d] = beta * own_row[d] + opened * row[d]


@compiled(fastmath=_FAST, error_model="numpy", parallel=True)
def guide_linear(  # type: ignore[no-untyped-def]
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
    vector_UD,
    bias_U,
    has_bias,
):
    """Gates and personal tables are written in place; `gate_UG` is [own; global; difference]."""
    width = vector_UD.shape[1]
    zero, one, floor = constants[0], constants[1], constants[2]
    pull = (one + one) * (one - beta)
    for chunk in numba.prange(len(chunk_start) - 1):
        blocked = np.zeros(n_items, np.uint8)
        longest = 0
        for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
            longest = max(longest, samples[k])
        items = np.empty(longest, np.int64)
        labels = np.empty(longest, np.uint8)
        on_own = np.empty(width, vector_UD.dtype)  # the gate's weights as it sees P and G alone
        on_global = np.empty(width, vector_UD.dtype)
        own_gradient = np.empty(width, vector_UD.dtype)
        global_gradient = np.empty(width, vector_UD.dtype)
        for k in range(chunk_start[chunk], chunk_start[chunk + 1]):
            user = users[k]
            positives = positive_item[positive_start[user] : positive_start[user + 1]]
            hidden = hidden_item[hidden_start[user] : hidden_start[user + 1]]
            vector, gate = vector_UD[user], gate_UG[user]
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
                    share = share_of_size[size]
                    for d in range(width):
                        on_own[d] = gate[d] + gate[2 * width + d]
                        on_global[d] = gate[width + d] - gate[2 * width + d]
                        own_gradient[d] = zero
                        global_gradient[d] = zero
                    bias_gradient = zero
                    for t in range(low, low + size):
                        own_row, row = own[user, items[t]], table[items[t]]
                        opening = gate_bias_U[user] + _dot(own_row, on_own, width)
                        opening += _dot(row, on_global, width)
                        opened = one / (one + np.exp(-opening))
                        known = _dot(row, vector, width)
                        logit = beta * _dot(own_row, vector, width) + pull * opened * known
                        if has_bias:
                            logit += bias_U[user]
                        label = one if labels[t] else zero
                        decay = np.exp(-logit)
                        # softplus(z) - y z
                        if logit > -40:
                            loss += logit - label * logit + np.log1p(np.float64(decay))
                        else:
                            loss -= label * logit
                        step = _slope(decay, label, on_probabilities, one, floor) * share
                        step *= pull * known * opened * (one - opened)
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


@compiled(error_model="numpy")
def sum_tables(users, weights, table, own, total):  # type: ignore[no-untyped-def]
    """total += Σ weight · (own table - global table), in float64, in the order of the users."""
    for k in range(len(users)):
        for item in range(own.shape[1]):
            for d in range(own.shape[2]):
                change = np.float64(own[users[k], item, d] - table[item, d])
                total[item, d] += weights[k] * change
