"""Models of pairs with a perceptron over [user row; item row]: definition, epoch and scores,
compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.central.pairs import PairModel
from tacit.central.rows import FAST, StepRule, Table, is_written_down, step_samples, table_of
from tacit.central.samples import PairSamples
from tacit.central.training import TOWER
from tacit.compiled import compiled
from tacit.core.capabilities import defines
from tacit.core.types import Params

# Layers over a chunk of pairs that lie side by side, compiled: arrays are (width, LANES).
#
# Every loop runs along the pairs and has a length known to the compiler, so it is vectorised
# without rests; four rows are taken at a time, so that a sum is loaded and stored once for four
# products.

LANES = 128  # pairs of a chunk: what the layers make of them stays close


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def add_mix(weight_K, x_KB, out_B):  # type: ignore[no-untyped-def]
    """Add Σ_k weight_K[k] x_KB[k] to `out_B`."""
    n_rows = len(weight_K)
    for k in range(0, n_rows - 3, 4):
        w0, w1, w2, w3 = weight_K[k], weight_K[k + 1], weight_K[k + 2], weight_K[k + 3]
        x0, x1, x2, x3 = x_KB[k], x_KB[k + 1], x_KB[k + 2], x_KB[k + 3]
        for b in range(LANES):
            out_B[b] += w0 * x0[b] + w1 * x1[b] + w2 * x2[b] + w3 * x3[b]
    for k in range(n_rows - n_rows % 4, n_rows):
        w0, x0 = weight_K[k], x_KB[k]
        for b in range(LANES):
            out_B[b] += w0 * x0[b]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def add_dots(x_KB, y_B, out_K):  # type: ignore[no-untyped-def]
    """Add x_KB[k] · y_B to each `out_K[k]`."""
    n_rows, zero = len(out_K), y_B.dtype.type(0)
    for k in range(0, n_rows - 3, 4):
        x0, x1, x2, x3 = x_KB[k], x_KB[k + 1], x_KB[k + 2], x_KB[k + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for b in range(LANES):
            s0 += x0[b] * y_B[b]
            s1 += x1[b] * y_B[b]
            s2 += x2[b] * y_B[b]
            s3 += x3[b] * y_B[b]
        out_K[k] += s0
        out_K[k + 1] += s1
        out_K[k + 2] += s2
        out_K[k + 3] += s3
    for k in range(n_rows - n_rows % 4, n_rows):
        x0, s0 = x_KB[k], zero
        for b in range(LANES):
            s0 += x0[b] * y_B[b]
        out_K[k] += s0


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def forward(weight_KJ, bias_J, x_KB, y_JB):  # type: ignore[no-untyped-def]
    """One hidden layer: y = relu(Wᵀ x + b)."""
    zero = y_JB.dtype.type(0)
    for j in range(len(bias_J)):
        y_B = y_JB[j]
        y_B[:] = bias_J[j]
        add_mix(weight_KJ[:, j], x_KB, y_B)
        for b in range(LANES):
            y_B[b] = zero if y_B[b] <= zero else y_B[b]  # what is not a number stays


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def backward(  # type: ignore[no-untyped-def]
    weight_KJ, x_KB, y_JB, slope_JB, weight_slope_KJ, bias_slope_J, x_slope_KB
):
    """From the slopes by y, which are cut where a unit is off: add those by weights and biases, and
    write those by x."""
    n_in, n_out = weight_KJ.shape
    zero = y_JB.dtype.type(0)
    for j in range(n_out):
        y_B, slope_B, total = y_JB[j], slope_JB[j], zero
        for b in range(LANES):
            slope_B[b] = zero if y_B[b] <= zero else slope_B[b]
            total += slope_B[b]
        bias_slope_J[j] += total
        add_dots(x_KB, slope_B, weight_slope_KJ[:, j])
    for k in range(n_in):
        x_slope_KB[k, :] = 0
        add_mix(weight_KJ[k], slope_JB, x_slope_KB[k])


# One epoch of a perceptron over pairs, compiled: gradients by hand, lazy rows.
#
# Units of a chunk of pairs lie in one array (units, LANES): [user; item] first, then the hidden
# layers, and right before the last of them the products of rows, if there are any: the logit reads
# both as one. Where a chunk has fewer pairs, what is left in the other lanes has no slope.


class TowerTables(NamedTuple):
    """What an epoch moves. `tower` has one row: weights and biases of the hidden layers, then the
    weights of [products; last hidden layer], then a bias. Tables of products may have no columns.
    """

    tower: Table
    users: Table
    items: Table
    product_users: Table
    product_items: Table


@compiled(fastmath=FAST, error_model="numpy")
def tower_epoch(tables, widths, samples, batch, step):  # type: ignore[no-untyped-def]
    """All batches in place; returns the sum of the losses. `tables` are `TowerTables`, and `widths`
    begins with that of [user; item]."""
    tower, users, items, product_users, product_items = tables
    user_N, item_N, label_N = samples
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
    row_N = (np.zeros(1, np.int64), user_N, item_N, user_N, item_N)
    table_slopes = (tower_slope, user_slope, item_slope, product_user_slope, product_item_slope)
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
            if tables[number].values.shape[1]:
                rows = row_N[number][low:high] if number else row_N[0]
                step_samples(tables[number], rows, table_slopes[number], step)
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


# Logits of a perceptron for users times all items, compiled.


@compiled(fastmath=FAST, error_model="numpy")
def tower_scores(  # type: ignore[no-untyped-def]
    upper, widths, user_BJ, item_JI, product_user_BD, product_item_DI, out_BI
):
    """Write all logits.

    The first layer of a pair is the sum of a user's half and an item's; `upper` is the tower above
    it and `widths` begins with its width. Columns of items are a multiple of LANES, so that equal
    columns have equal scores wherever they stand.
    """
    n_items, kind = out_BI.shape[1], out_BI.dtype
    zero = kind.type(0)
    units = np.zeros((widths.sum(), LANES), kind)
    for low in range(0, n_items, LANES):
        here = min(LANES, n_items - low)
        for user in range(len(out_BI)):
            for j in range(widths[0]):
                unit_B, half_B, half = units[j], item_JI[j, low : low + LANES], user_BJ[user, j]
                for b in range(LANES):
                    total = half + half_B[b]
                    unit_B[b] = zero if total <= zero else total
            logit_B = climb(upper, widths, 0, units)
            add_mix(product_user_BD[user], product_item_DI[:, low : low + LANES], logit_B)
            for b in range(here):
                out_BI[user, low + b] = logit_B[b]


# Models of pairs with a perceptron over [user row; item row], and perhaps products of rows.


@dataclass(frozen=True)
class TowerModel(PairModel):
    """What NCF and NeuMF have in common: an epoch is one compiled pass, and so are scores.

    The tower is mlp.w0, mlp.b0, mlp.w1, ..., out.w over [products; last hidden layer], out.b. A
    class that names its tables (`PERCEPTRON`) beside its own `logit` says that this is its logit;
    a subclass of it runs on the general path.
    """

    layers: tuple[int, ...] = (32, 16, 8)

    PERCEPTRON: ClassVar[tuple[str, str]]  # the tables of users and items
    PRODUCTS: ClassVar[tuple[str, str] | None] = None

    @property
    def n_products(self) -> int:
        return 0 if self.PRODUCTS is None else self.user_tables()[self.PRODUCTS[0]].count

    @property
    def is_tower(self) -> bool:
        """Whether the logit is the one that kernels have written down."""
        return defines(self, "PERCEPTRON", "logit", "tower", "user_tables", "item_tables")

    @property
    def kernel(self) -> str | None:
        return "tower" if self.is_tower and is_written_down(self.optimiser) else None

    def descend(self, parameters: Params, samples: PairSamples, step_rule: StepRule) -> float:
        """What `PairModel.descend` does, with gradients by hand."""
        if self.kernel is None:
            return super().descend(parameters, samples, step_rule)
        users, items = (table_of(parameters, name) for name in self.PERCEPTRON)
        product_users = product_items = Table.empty(users.values.dtype)
        if self.PRODUCTS is not None:
            product_users, product_items = (table_of(parameters, name) for name in self.PRODUCTS)
        tower = table_of(parameters, TOWER)
        tables = TowerTables(tower, users, items, product_users, product_items)
        widths = np.array([2 * self.dim, *self.layers])
        return float(tower_epoch(tables, widths, samples.arrays, self.batch, step_rule.step))

    def score_rows(self, parameters: Params, rows: Params) -> np.ndarray:
        """(B, I) logits of B users given by their rows; each half of the first layer once."""
        if not self.is_tower:
            return super().score_rows(parameters, rows)
        p = self.unpacked({TOWER: parameters[TOWER]})
        user, items = rows[self.PERCEPTRON[0]], parameters[self.PERCEPTRON[1]]
        user_BJ = user @ p["mlp.w0"][: self.dim] + p["mlp.b0"]
        item_JI = _in_lanes(items @ p["mlp.w0"][self.dim :])
        product_user_BD, product_item_DI = user_BJ[:, :0], item_JI[:0]
        if self.PRODUCTS is not None:
            weight_D = p["out.w"][: self.n_products]
            product_user_BD = rows[self.PRODUCTS[0]] * weight_D
            product_item_DI = _in_lanes(parameters[self.PRODUCTS[1]])
        p["out.w"] = p["out.w"][self.n_products :]
        upper = [p[name].flatten() for name in self.tower() if name not in ("mlp.w0", "mlp.b0")]
        out_BI = np.empty((len(user), len(items)), user_BJ.numpy().dtype)
        tower_scores(
            torch.cat(upper).numpy(),
            np.array(self.layers),
            user_BJ.numpy(),
            item_JI.numpy(),
            product_user_BD.contiguous().numpy(),
            product_item_DI.numpy(),
            out_BI,
        )
        return out_BI


def _in_lanes(row_ID: Tensor) -> Tensor:
    """(D, I), with empty columns up to a multiple of LANES."""
    n_items, width = row_ID.shape
    column_DI = row_ID.new_zeros((width, -(-n_items // LANES) * LANES))
    column_DI[:, :n_items] = row_ID.T
    return column_DI
