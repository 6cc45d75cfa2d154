"""Compiled loops of FedDAE over the rows of many histories, client after client.

Every gradient of a client's own leaves is an outer product: what entered a row, times the slope of
what came out. So one kernel steps first layers, second layers and biases alike. B are clients,
R rows of all of them, D the width; rows `start[b]` to `start[b + 1]` are client b's.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled

# Reassociation lets sums vectorise; NaN and infinity keep their meaning.
_compiled = compiled(fastmath={"contract", "arcp", "nsz", "reassoc"}, error_model="numpy")


@_compiled
def first_times(start, item, n_items):  # type: ignore[no-untyped-def]
    """Whether an item stands in its list for the first time."""
    seen = np.full(n_items, -1, np.int64)
    first = np.zeros(len(item), np.bool_)
    for b in range(len(start) - 1):
        for r in range(start[b], start[b + 1]):
            first[r] = seen[item[r]] != b
            seen[item[r]] = b
    return first


@_compiled
def sum_rows(start, row_RD, input_R, out_BD):  # type: ignore[no-untyped-def]
    """Each client's rows, weighted by what enters them."""
    for b in range(len(out_BD)):
        out = out_BD[b]
        out[:] = 0
        for r in range(start[b], start[b + 1]):
            row = row_RD[r]
            for d in range(len(row)):
                out[d] += input_R[r] * row[d]


@_compiled
def add_rows(start, item_R, input_R, slope_BD, total_ID):  # type: ignore[no-untyped-def]
    """The gradient of `sum_rows` by the rows of a shared table, added up."""
    for b in range(len(slope_BD)):
        slope = slope_BD[b]
        for r in range(start[b], start[b + 1]):
            total = total_ID[item_R[r]]
            for d in range(len(slope)):
                total[d] += input_R[r] * slope[d]


@_compiled
def adam_rows(  # type: ignore[no-untyped-def]
    start, value_RD, first_RD, second_RD, input_R, slope_BD, numbers
):
    """One step of Adam in place. `numbers`, of the values' own kind: both decays, one minus each,
    both bias corrections, rate, epsilon, weight decay."""
    beta1, beta2, rest1, rest2 = numbers[0], numbers[1], numbers[2], numbers[3]
    correct1, correct2, rate, epsilon = numbers[4], numbers[5], numbers[6], numbers[7]
    decay = numbers[8]
    for b in range(len(slope_BD)):
        slope = slope_BD[b]
        for r in range(start[b], start[b + 1]):
            value, first, second = value_RD[r], first_RD[r], second_RD[r]
            enters = input_R[r]
            for d in range(len(slope)):
                gradient = enters * slope[d] + decay * value[d]
                first[d] = beta1 * first[d] + rest1 * gradient
                second[d] = beta2 * second[d] + rest2 * gradient * gradient
                spread = np.sqrt(second[d] / correct2)
                value[d] -= rate * (first[d] / correct1) / (spread + epsilon)
