"""Compiled loops of MetaMF over the samples of many clients, and its server's step.

Of the generated item tables a round reads only the sampled rows. They are made item by item: the
head's weights of an item stay in the nearest cache while the clients that sampled it pass by. H is
the width of the hidden layer, N samples, J the inner width of the item table, B clients.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled

# Reassociation lets sums vectorise; NaN and infinity keep their meaning.
_compiled = compiled(fastmath={"contract", "arcp", "nsz", "reassoc"}, error_model="numpy")

EIGHT = 8


@_compiled
def by_item(start, item_N, n_items):  # type: ignore[no-untyped-def]
    """Samples in the order of items: where each item's begin, which they are, and whose."""
    begin = np.zeros(n_items + 1, np.int64)
    for n in range(len(item_N)):
        begin[item_N[n] + 1] += 1
    for i in range(n_items):
        begin[i + 1] += begin[i]
    order, client = np.empty(len(item_N), np.int64), np.empty(len(item_N), np.int64)
    filled = begin[:-1].copy()
    for b in range(len(start) - 1):
        for n in range(start[b], start[b + 1]):
            place = filled[item_N[n]]
            order[place] = n
            client[place] = b
            filled[item_N[n]] = place + 1
    return begin, order, client


@_compiled
def left_rows(begin, order, client, weight_CH, bias_C, hidden_BH, left_NJ):  # type: ignore[no-untyped-def]
    """The sampled rows of each client's left factor: hidden · weights + bias."""
    width, inner = hidden_BH.shape[1], left_NJ.shape[1]
    zero = hidden_BH.dtype.type(0)
    for i in range(len(begin) - 1):
        # two clients at a time: sums stay in registers, and each load serves two products
        for place in range(begin[i], begin[i + 1], 2):
            other = min(place + 1, begin[i + 1] - 1)
            one, two = client[place], client[other]
            for j in range(0, inner, 2):
                column, next_column = i * inner + j, i * inner + min(j + 1, inner - 1)
                a_0, a_1, b_0, b_1 = zero, zero, zero, zero
                for h in range(width):
                    a_0 += hidden_BH[one, h] * weight_CH[column, h]
                    a_1 += hidden_BH[one, h] * weight_CH[next_column, h]
                    b_0 += hidden_BH[two, h] * weight_CH[column, h]
                    b_1 += hidden_BH[two, h] * weight_CH[next_column, h]
                left_NJ[order[place], j] = a_0 + bias_C[column]
                left_NJ[order[other], j] = b_0 + bias_C[column]
                if j + 1 < inner:
                    left_NJ[order[place], j + 1] = a_1 + bias_C[next_column]
                    left_NJ[order[other], j + 1] = b_1 + bias_C[next_column]


@_compiled
def left_back(  # type: ignore[no-untyped-def]
    begin, order, client, weight_CH, hidden_BH, slope_NJ, weight_slope_CH, bias_slope_C, out_BH
):
    """The gradient of `left_rows`, added to the last three."""
    inner = slope_NJ.shape[1]
    # products of up to EIGHT vectors are added at once; missing ones repeat another, times zero
    vector = np.zeros(EIGHT, np.int64)
    factor = np.zeros(EIGHT, slope_NJ.dtype)
    for i in range(len(begin) - 1):
        first = i * inner
        for place in range(begin[i], begin[i + 1]):
            for j in range(0, inner, EIGHT):
                for t in range(EIGHT):
                    real = j + t < inner
                    vector[t] = first + min(j + t, inner - 1)
                    factor[t] = slope_NJ[order[place], j + t] if real else 0
                _add_eight(weight_CH, vector, factor, out_BH, client[place])
        for place in range(begin[i], begin[i + 1], EIGHT):
            for t in range(EIGHT):
                vector[t] = client[min(place + t, begin[i + 1] - 1)]
            for j in range(inner):
                for t in range(EIGHT):
                    real = place + t < begin[i + 1]
                    factor[t] = slope_NJ[order[place + t], j] if real else 0
                    bias_slope_C[first + j] += factor[t]
                _add_eight(hidden_BH, vector, factor, weight_slope_CH, first + j)


@_compiled
def _add_eight(table, vector, factor, out, row):  # type: ignore[no-untyped-def]
    """The sum of eight rows of a table, each times its factor, added to a row in one visit."""
    v_0, v_1, v_2, v_3 = vector[0], vector[1], vector[2], vector[3]
    v_4, v_5, v_6, v_7 = vector[4], vector[5], vector[6], vector[7]
    f_0, f_1, f_2, f_3 = factor[0], factor[1], factor[2], factor[3]
    f_4, f_5, f_6, f_7 = factor[4], factor[5], factor[6], factor[7]
    for h in range(table.shape[1]):
        near = f_0 * table[v_0, h] + f_1 * table[v_1, h] + f_2 * table[v_2, h] + f_3 * table[v_3, h]
        far = f_4 * table[v_4, h] + f_5 * table[v_5, h] + f_6 * table[v_6, h] + f_7 * table[v_7, h]
        out[row, h] += near + far


@_compiled
def predict_back(  # type: ignore[no-untyped-def]
    start, label_N, left_NJ, mix_BJK, b0_BK, w1_BK, b1_B, mix_slope, b0_slope, w1_slope, b1_slope
):
    """The gradient of each client's mean cross-entropy; `left_NJ` is overwritten with its own."""
    one, zero = left_NJ.dtype.type(1), left_NJ.dtype.type(0)
    inner, width = mix_BJK.shape[1], mix_BJK.shape[2]
    value_K, step_K = np.empty(width, left_NJ.dtype), np.empty(width, left_NJ.dtype)
    for b in range(len(start) - 1):
        mix, b0, w1 = mix_BJK[b], b0_BK[b], w1_BK[b]
        share = one / left_NJ.dtype.type(max(1, start[b + 1] - start[b]))
        for n in range(start[b], start[b + 1]):
            left = left_NJ[n]
            for k in range(width):
                value_K[k] = b0[k]
            for j in range(inner):
                for k in range(width):
                    value_K[k] += left[j] * mix[j, k]
            logit = b1_B[b]
            for k in range(width):
                logit += max(value_K[k], zero) * w1[k]
            slope = share * (one / (one + np.exp(-logit)) - left_NJ.dtype.type(label_N[n]))
            b1_slope[b] += slope
            for k in range(width):
                w1_slope[b, k] += slope * max(value_K[k], zero)
                step_K[k] = slope * w1[k] if value_K[k] > zero else zero
                b0_slope[b, k] += step_K[k]
            for j in range(inner):
                total = zero
                for k in range(width):
                    total += mix[j, k] * step_K[k]
                    mix_slope[b, j, k] += left[j] * step_K[k]
                left[j] = total


@_compiled
def adam_flat(value, first, second, slope, scale, numbers):  # type: ignore[no-untyped-def]
    """One step of Adam in double precision, written in place; the gradient is scale * slope.

    `numbers`: both decays, both bias corrections, rate, epsilon, weight decay.
    """
    beta1, beta2, correct1, correct2, rate, epsilon, decay = numbers
    for e in range(len(value)):
        before = np.float64(value[e])
        gradient = scale * slope[e] + decay * before
        mean = beta1 * first[e] + (1.0 - beta1) * gradient
        square = beta2 * second[e] + (1.0 - beta2) * gradient * gradient
        first[e] = mean
        second[e] = square
        spread = np.sqrt(square / correct2)
        value[e] = before - rate * (mean / correct1) / (spread + epsilon)
