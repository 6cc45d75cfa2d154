"""Compiled loops of FedPerGNN over all clients: pooling histories, scoring samples, and back.

Kernels compute in the tables' own kind of float. Sums that go to the server count who reports; a
client's own gradient does not. P are clients, I items, D the width, E the head's hidden width.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled

# Reassociation lets sums vectorise; NaN and infinity keep their meaning.
_compiled = compiled(fastmath={"contract", "arcp", "nsz", "reassoc"}, error_model="numpy")


@_compiled
def pool(start, item, joined_ID, pool_I, mine_P, leak, weight_N, pooled_PD):  # type: ignore[no-untyped-def]
    """Attention over each history: its weights, and the items pooled into zeros."""
    zero = joined_ID.dtype.type(0)
    for p in range(len(mine_P)):
        begin, end = start[p], start[p + 1]
        for n in range(begin, end):
            value = pool_I[item[n]] + mine_P[p]
            weight_N[n] = value if value > zero else leak * value
        if begin < end:
            highest = weight_N[begin:end].max()
        total = zero
        for n in range(begin, end):
            weight_N[n] = np.exp(weight_N[n] - highest)
            total += weight_N[n]
        pooled = pooled_PD[p]
        for n in range(begin, end):
            weight_N[n] /= total
            row = joined_ID[item[n]]
            for d in range(len(row)):
                pooled[d] += weight_N[n] * row[d]


@_compiled
def pool_back(  # type: ignore[no-untyped-def]
    start,
    item,
    joined_ID,
    pool_I,
    mine_P,
    leak,
    weight_N,
    pooled_slope_PD,
    report_P,
    joined_slope_ID,
    pool_slope_I,
    mine_slope_P,
):
    """The gradient of `pool`, added to the last three."""
    zero = joined_ID.dtype.type(0)
    dot_N = np.empty_like(weight_N)
    for p in range(len(mine_P)):
        slope_D = pooled_slope_PD[p]
        mean = zero
        for n in range(start[p], start[p + 1]):
            row, row_slope = joined_ID[item[n]], joined_slope_ID[item[n]]
            dot = zero
            for d in range(len(row)):
                dot += slope_D[d] * row[d]
            share = report_P[p] * weight_N[n]
            for d in range(len(row)):
                row_slope[d] += share * slope_D[d]
            dot_N[n] = dot
            mean += weight_N[n] * dot
        for n in range(start[p], start[p + 1]):
            slope = weight_N[n] * (dot_N[n] - mean)
            if pool_I[item[n]] + mine_P[p] <= zero:
                slope *= leak
            pool_slope_I[item[n]] += report_P[p] * slope
            mine_slope_P[p] += slope


@_compiled
def head_back(  # type: ignore[no-untyped-def]
    start,
    item,
    label_N,
    value_IE,
    shift_PE,
    out_E,
    bias,
    rectify,
    squared,
    report_P,
    value_slope_IE,
    shift_slope_PE,
    out_slope_E,
):
    """The gradient of each client's mean loss over its samples; returns the output bias's.

    A sample's logit is out · relu(value of the item + shift of the client) + bias; without
    `rectify` the rectifier is left out. `squared` is squared error of the probability instead of
    cross-entropy.
    """
    zero, one = value_IE.dtype.type(0), value_IE.dtype.type(1)
    bias_slope = 0.0  # sums over everybody are in double precision, as sums of uploads are
    width = len(out_E)
    active_E, step_E, own_E = np.empty_like(out_E), np.empty_like(out_E), np.empty_like(out_E)
    for p in range(len(shift_PE)):
        shift, shift_slope = shift_PE[p], shift_slope_PE[p]
        own_E[:] = 0
        share = one / value_IE.dtype.type(max(1, start[p + 1] - start[p]))
        for n in range(start[p], start[p + 1]):
            value, value_slope = value_IE[item[n]], value_slope_IE[item[n]]
            logit = bias
            for e in range(width):
                sum_e = value[e] + shift[e]
                active_E[e] = sum_e if sum_e > zero or not rectify else zero
                logit += active_E[e] * out_E[e]
            probability = one / (one + np.exp(-logit))
            slope = share * (probability - value_IE.dtype.type(label_N[n]))
            if squared:
                slope *= (one + one) * probability * (one - probability)
            counted = report_P[p] * slope
            bias_slope += counted
            for e in range(width):
                step_E[e] = out_E[e] if active_E[e] > zero or not rectify else zero
            for e in range(width):
                shift_slope[e] += slope * step_E[e]
            for e in range(width):
                value_slope[e] += counted * step_E[e]
            for e in range(width):
                own_E[e] += counted * active_E[e]
        for e in range(width):
            out_slope_E[e] += own_E[e]
    return bias_slope


@_compiled
def head_scores(value_IE, shift_PE, out_E, bias, rectify, score_PI):  # type: ignore[no-untyped-def]
    """Logits of all items for some clients."""
    zero = value_IE.dtype.type(0)
    for p in range(len(shift_PE)):
        shift = shift_PE[p]
        for i in range(len(value_IE)):
            value = value_IE[i]
            logit = bias
            for e in range(len(out_E)):
                sum_e = value[e] + shift[e]
                logit += out_E[e] * (sum_e if sum_e > zero or not rectify else zero)
            score_PI[p, i] = logit
