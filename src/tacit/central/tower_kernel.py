"""One epoch of a perceptron over pairs, compiled: gradients by hand, lazy rows.

Units of a chunk of pairs lie in one array (units, LANES): [user; item] first, then the hidden
layers, and right before the last of them the products of rows, if there are any: the logit reads
both as one. Where a chunk has fewer pairs, what is left in the other lanes has no slope.
"""

from __future__ import annotations

import numpy as np

from tacit.central.lanes import LANES, add_dots, add_mix, backward, forward
from tacit.central.rows import FAST, step_samples
from tacit.compiled import compiled


@compiled(fastmath=FAST, error_model="numpy")
def tower_epoch(  # type: ignore[no-untyped-def]
    tower, users, items, product_users, product_items, widths, user_N, item_N, label_N, batch, law
):
    """All batches in place; returns the sum of the losses.

    A table is a tuple: values, first and second moments, steps. `tower` has one row: weights and
    biases of the hidden layers, then the weights of [products; last hidden layer], then a bias.
    `widths` begins with that of [user; item]. The tables of products may have no columns.
    """
    kind, dim, n_products = users[0].dtype, users[0].shape[1], product_users[0].shape[1]
    units = np.zeros((widths.sum() + n_products, LANES), kind)
    slopes = np.zeros_like(units)
    tower_slope = np.empty_like(tower[0])
    most = min(batch, len(item_N))
    user_slope, item_slope = np.empty((most, dim), kind), np.empty((most, dim), kind)
    product_user_slope = np.empty((most, n_products), kind)
    product_item_slope = np.empty((most, n_products), kind)
    n_ends = n_products + widths[-1]
    ends, ends_slope = units[-n_ends:], slopes[-n_ends:]
    tables = (tower, users, items, product_users, product_items)
    row_N = (np.zeros(1, np.int64), user_N, item_N, user_N, item_N)
    table_slopes = (tower_slope, user_slope, item_slope, product_user_slope, product_item_slope)
    adam, beta1, beta2, constants = law
    loss = 0.0
    for low in range(0, len(item_N), batch):
        high = min(low + batch, len(item_N))
        tower_slope[:] = 0
        for begin in range(low, high, LANES):
            part, chunk = slice(begin, min(begin + LANES, high)), slice(begin - low, high - low)
            who_B, what_B = user_N[part], item_N[part]
            _gather(users[0], who_B, units[:dim])
            _gather(items[0], what_B, units[dim : 2 * dim])
            if n_products:
                _products(product_users[0], product_items[0], who_B, what_B, ends)
            logit_B = climb(tower[0][0], widths, n_products, units)
            loss += _logits_to_slopes(logit_B, label_N[part], high - low)
            _go_down(tower[0][0], tower_slope[0], widths, n_products, units, slopes, logit_B)
            _scatter(slopes[:dim], user_slope[chunk], len(who_B))
            _scatter(slopes[dim : 2 * dim], item_slope[chunk], len(who_B))
            if n_products:
                _product_slopes(product_items[0], what_B, ends_slope, product_user_slope[chunk])
                _product_slopes(product_users[0], who_B, ends_slope, product_item_slope[chunk])
        for number in range(len(tables)):
            values, first, second, steps = tables[number]
            if values.shape[1]:
                step_samples(
                    values,
                    first,
                    second,
                    steps,
                    row_N[number][low:high] if number else row_N[0],
                    table_slopes[number],
                    adam,
                    beta1,
                    beta2,
                    constants,
                )
    return loss


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def climb(tower, widths, n_products, units):  # type: ignore[no-untyped-def]
    """Fill the hidden layers; returns the logits."""
    low = at = 0
    for number in range(len(widths) - 1):
        n_in, n_out = widths[number], widths[number + 1]
        high = low + n_in + (n_products if number == len(widths) - 2 else 0)
        weight_KJ = tower[at : at + n_in * n_out].reshape(n_in, n_out)
        bias_J = tower[at + n_in * n_out : at + (n_in + 1) * n_out]
        forward(weight_KJ, bias_J, units[low : low + n_in], units[high : high + n_out])
        low, at = high, at + (n_in + 1) * n_out
    logit_B = np.full(LANES, tower[-1], units.dtype)
    add_mix(tower[at:-1], units[low - n_products :], logit_B)
    return logit_B


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _go_down(  # type: ignore[no-untyped-def]
    tower, tower_slope, widths, n_products, units, slopes, slope_B
):
    """Add the slopes by the tower, and write those by all units, from those by the logits."""
    n_ends = n_products + widths[-1]
    ends_slope, at = slopes[-n_ends:], len(tower) - 1 - n_ends
    add_dots(units[-n_ends:], slope_B, tower_slope[at:-1])
    tower_slope[-1] += slope_B.sum()
    for k in range(n_ends):
        out_B, weight = ends_slope[k], tower[at + k]
        for b in range(LANES):
            out_B[b] = weight * slope_B[b]
    high = len(units) - widths[-1]
    for number in range(len(widths) - 2, -1, -1):
        n_in, n_out = widths[number], widths[number + 1]
        low = high - n_in - (n_products if number == len(widths) - 2 else 0)
        at -= (n_in + 1) * n_out
        middle, end = at + n_in * n_out, at + (n_in + 1) * n_out
        backward(
            tower[at:middle].reshape(n_in, n_out),
            units[low : low + n_in],
            units[high : high + n_out],
            slopes[high : high + n_out],
            tower_slope[at:middle].reshape(n_in, n_out),
            tower_slope[middle:end],
            slopes[low : low + n_in],
        )
        high = low


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _logits_to_slopes(logit_B, label_B, size):  # type: ignore[no-untyped-def]
    """Logits become the slopes of their losses over `size`; returns the sum of the losses.

    The loss is softplus(z) - y z, its slope sigmoid(z) - y.
    """
    loss = 0.0
    for b in range(len(label_B)):
        logit, label = np.float64(logit_B[b]), np.float64(label_B[b])
        decay = np.exp(-abs(logit))  # never overflows
        loss += max(logit, 0.0) + np.log1p(decay) - label * logit
        logit_B[b] = ((1.0 if logit >= 0 else decay) / (1.0 + decay) - label) / size
    logit_B[len(label_B) :] = 0
    return loss


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _gather(table, row_B, out_DB):  # type: ignore[no-untyped-def]
    for b in range(len(row_B)):
        row = table[row_B[b]]
        for d in range(len(row)):
            out_DB[d, b] = row[d]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _scatter(slope_DB, out_BD, size):  # type: ignore[no-untyped-def]
    for b in range(size):
        for d in range(len(slope_DB)):
            out_BD[b, d] = slope_DB[d, b]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _products(users, items, user_B, item_B, out_DB):  # type: ignore[no-untyped-def]
    for b in range(len(user_B)):
        user, item = users[user_B[b]], items[item_B[b]]
        for d in range(len(user)):
            out_DB[d, b] = user[d] * item[d]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _product_slopes(other, row_B, slope_DB, out_BD):  # type: ignore[no-untyped-def]
    """By one factor of each product: the other factor times the slope by the product."""
    for b in range(len(row_B)):
        row = other[row_B[b]]
        for d in range(len(row)):
            out_BD[b, d] = row[d] * slope_DB[d, b]
