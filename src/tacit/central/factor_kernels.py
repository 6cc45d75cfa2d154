"""Compiled epochs of factorisations, with gradients by hand: `mf` and `bprmf`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.central.rows import FAST, Table, step_samples
from tacit.compiled import compiled

# One epoch of matrix factorisation, compiled: gradients by hand, lazy rows.


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = a[0] * b[0]
    for d in range(1, n):
        total += a[d] * b[d]
    return total


@compiled(fastmath=FAST, error_model="numpy")
def mf_epoch(users, items, samples, batch, step):  # type: ignore[no-untyped-def]
    """All batches in place; returns the sum of the losses.

    The loss of a sample is softplus(z) - y z with z = p·q. Its slope s = sigmoid(z) - y, divided by
    the size of the batch, gives s q for the user's row and s p for the item's.
    """
    user_N, item_N, label_N = samples
    user_table, item_table = users.values, items.values
    width = user_table.shape[1]
    user_gradient = np.empty((batch, width), user_table.dtype)
    item_gradient = np.empty((batch, width), user_table.dtype)
    slope = np.empty(1, user_table.dtype)
    loss = 0.0
    for low in range(0, len(item_N), batch):
        size = min(batch, len(item_N) - low)
        for t in range(size):
            user, item = user_table[user_N[low + t]], item_table[item_N[low + t]]
            logit = np.float64(_dot(user, item, width))
            label = np.float64(label_N[low + t])
            decay = np.exp(-abs(logit))  # never overflows
            loss += max(logit, 0.0) + np.log1p(decay) - label * logit
            probability = (1.0 if logit >= 0 else decay) / (1.0 + decay)
            slope[0] = (probability - label) / size
            scale = slope[0]
            for d in range(width):
                user_gradient[t, d] = scale * item[d]
                item_gradient[t, d] = scale * user[d]
        step_samples(users, user_N[low : low + size], user_gradient, step)
        step_samples(items, item_N[low : low + size], item_gradient, step)
    return loss


# One epoch of BPR. With x = p (q_i - q_j) + b_i - b_j the loss of a triple is softplus(-x). Its
# slope by x is -sigmoid(-x): over the size of the batch it gives the gradients of p, q_i, q_j, b_i
# and b_j.


class FactorTables(NamedTuple):
    """What an epoch moves; `biases` of items have no rows where a model has none."""

    users: Table
    items: Table
    biases: Table


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _lead(p, q_i, q_j, n):  # type: ignore[no-untyped-def]
    """p (q_i - q_j)."""
    total = p[0] * (q_i[0] - q_j[0])
    for d in range(1, n):
        total += p[d] * (q_i[d] - q_j[d])
    return total


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def bpr_epoch(tables, triples, batch, step):  # type: ignore[no-untyped-def]
    """All batches in place; returns the sum of the losses."""
    (users, items, biases), (user_N, item_N, other_N) = tables, triples
    user_table, item_table, bias_table = users.values, items.values, biases.values
    width, has_bias = user_table.shape[1], len(bias_table) > 0
    user_slope = np.empty((batch, width), user_table.dtype)
    item_slope = np.empty((2 * batch, width), user_table.dtype)
    bias_slope = np.empty((2 * batch, 1), user_table.dtype)
    both = np.empty(2 * batch, np.int64)
    one = np.empty(1, user_table.dtype)  # of the tables' own kind: numba would go on in float64
    loss = 0.0
    for low in range(0, len(item_N), batch):
        size = min(batch, len(item_N) - low)
        for t in range(size):
            i, j = item_N[low + t], other_N[low + t]
            p, q_i, q_j = user_table[user_N[low + t]], item_table[i], item_table[j]
            total = _lead(p, q_i, q_j, width)
            if has_bias:
                total += bias_table[i, 0] - bias_table[j, 0]
            x = np.float64(total)
            small = np.exp(-abs(x))  # never overflows
            loss += max(-x, 0.0) + np.log1p(small)
            one[0] = -(small if x >= 0 else 1.0) / (1.0 + small) / size
            slope = one[0]
            both[2 * t], both[2 * t + 1] = i, j
            for d in range(width):
                user_slope[t, d] = slope * (q_i[d] - q_j[d])
                item_slope[2 * t, d] = slope * p[d]
                item_slope[2 * t + 1, d] = -slope * p[d]
            bias_slope[2 * t, 0], bias_slope[2 * t + 1, 0] = slope, -slope
        rows = both[: 2 * size]
        step_samples(users, user_N[low : low + size], user_slope, step)
        step_samples(items, rows, item_slope, step)
        if has_bias:
            step_samples(biases, rows, bias_slope, step)
    return loss


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def bpr_descent(tables, triples, step):  # type: ignore[no-untyped-def]
    """The same for batches of one triple and plain descent: rows move where they lie."""
    (users, items, biases), (user_N, item_N, other_N) = tables, triples
    user_table, item_table, bias_table = users.values, items.values, biases.values
    width, has_bias = user_table.shape[1], len(bias_table) > 0
    rate, decay = step.constants[0], step.constants[1]
    one = np.empty(1, user_table.dtype)  # of the tables' own kind: numba would go on in float64
    loss = 0.0
    for t in range(len(item_N)):
        i, j = item_N[t], other_N[t]
        p, q_i, q_j = user_table[user_N[t]], item_table[i], item_table[j]
        total = _lead(p, q_i, q_j, width)
        if has_bias:
            total += bias_table[i, 0] - bias_table[j, 0]
        x = np.float64(total)
        small = np.exp(-abs(x))  # never overflows
        loss += max(-x, 0.0) + np.log1p(small)
        one[0] = -(small if x >= 0 else 1.0) / (1.0 + small)
        slope = one[0]
        for d in range(width):
            own, with_i, with_j = p[d], q_i[d], q_j[d]
            p[d] = own - rate * (slope * (with_i - with_j) + decay * own)
            q_i[d] = with_i - rate * (slope * own + decay * with_i)
            q_j[d] = with_j - rate * (-slope * own + decay * with_j)
        if has_bias:
            b_i, b_j = bias_table[i, 0], bias_table[j, 0]
            bias_table[i, 0] = b_i - rate * (slope + decay * b_i)
            bias_table[j, 0] = b_j - rate * (-slope + decay * b_j)
    return loss
