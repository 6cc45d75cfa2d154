"""MetaMF for all clients at once: compiled loops over samples, and its server's step."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vjp

from tacit.compiled import compiled
from tacit.core.optim import ADAM_STATE, Adam
from tacit.core.ragged import RaggedBatch
from tacit.core.types import Params

# Compiled loops of MetaMF over the samples of many clients, and its server's step.
#
# Of the generated item tables a round reads only the sampled rows. They are made item by item: the
# head's weights of an item stay in the nearest cache while the clients that sampled it pass by. H
# is the width of the hidden layer, N samples, J the inner width of the item table, B clients.

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


class Predictors(NamedTuple):
    """Each client's model behind the left factor, or its gradient: right factor times first layer,
    its bias, second layer, its bias."""

    mix_BJK: np.ndarray
    b0_BK: np.ndarray
    w1_BK: np.ndarray
    b1_B: np.ndarray


@_compiled
def predict_back(start, label_N, left_NJ, predictors, slopes):  # type: ignore[no-untyped-def]
    """The gradient of each client's mean cross-entropy, added to `slopes`; `left_NJ` is overwritten
    with its own."""
    mix_BJK, b0_BK, w1_BK, b1_B = predictors
    mix_slope, b0_slope, w1_slope, b1_slope = slopes
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


# MetaMF for all clients at once.
#
# Of the generated tables only the sampled rows are made. A row goes through the right factor and
# the predictor's first layer, both the client's own and linear: their product, 8 x 8, is made once
# for a client, and the table of width 32 never.

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # of heads: the network, and the generated shape
PIECE = 512  # clients: their hidden vectors stay near while items pass


def generated(p: Params, user_B: Tensor, shapes: Shapes) -> tuple[Tensor, ...]:
    """The hidden vectors behind the item tables; then of each client's model all but the left
    factor: right factor times first layer, its bias, second layer, its bias."""
    vector = p["users"][user_B] @ p["memory"]
    hidden = {
        network: torch.relu(vector @ p[f"{network}.w"] + p[f"{network}.b"])
        for network in ("first", "second", "items")
    }
    made = {
        head: (hidden[network] @ p[f"{head}.w"] + p[f"{head}.b"]).reshape(-1, *shape)
        for head, (network, shape) in shapes.items()
        if head != "left"
    }
    mix_BJK = torch.bmm(made["right"], made["w0"])
    return hidden["items"], mix_BJK, made["b0"], made["w1"], made["b1"][:, 0]


def ragged_slopes(p: Params, batch: RaggedBatch, shapes: Shapes) -> Params:
    """The sum over all clients of the gradient of the server's parameters."""
    total = {name: torch.zeros_like(value) for name, value in p.items()}
    small = {name: value for name, value in p.items() if not name.startswith("left.")}
    n_items, inner = shapes["left"][1]
    # items side by side: kernels read and write the columns of one item after another
    weight, bias = p["left.w"].T.contiguous().numpy(), p["left.b"].numpy()
    weight_slope = np.zeros_like(weight)
    for part in batch.pieces(PIECE):
        user_B = torch.from_numpy(part.user_P)
        made, back = vjp(partial(generated, user_B=user_B, shapes=shapes), small)[:2]
        hidden, *model = made
        begin, order, client = by_item(part.samples.start_U1, part.samples.item_N, n_items)
        left_NJ = np.empty((len(part.label_N), inner), dtype=weight.dtype)
        left_rows(begin, order, client, weight, bias, hidden.numpy(), left_NJ)
        slopes = [torch.zeros_like(value, memory_format=torch.contiguous_format) for value in made]
        predictors = Predictors(*(value.contiguous().numpy() for value in model))
        slope = Predictors(*(value.numpy() for value in slopes[1:]))
        predict_back(part.samples.start_U1, part.label_N, left_NJ, predictors, slope)
        left_back(
            begin,
            order,
            client,
            weight,
            hidden.numpy(),
            left_NJ,
            weight_slope,
            total["left.b"].numpy(),
            slopes[0].numpy(),
        )
        for name, value in back(tuple(slopes))[0].items():
            total[name] += value
    total["left.w"].copy_(torch.from_numpy(weight_slope).T)
    return total


def ragged_logits(p: Params, user_B: Tensor, shapes: Shapes) -> Tensor:
    """Logits of all items for some users."""
    hidden, mix_BJK, b0_BK, w1_BK, b1_B = generated(p, user_B, shapes)
    left_BIJ = torch.addmm(p["left.b"], hidden, p["left.w"]).reshape(-1, *shapes["left"][1])
    value_BIK = torch.baddbmm(b0_BK[:, None], left_BIJ, mix_BJK).relu_()
    return torch.baddbmm(b1_B[:, None, None], value_BIK, w1_BK[:, :, None])[:, :, 0]


def adam_in_place(adam: Adam, shared: Params, gradient: Params, scale: float, rate: float) -> None:
    """`adam_step` along scale * gradient, written into `shared`."""
    for name, slope in gradient.items():
        first, second, steps = (shared[f"{name}/{key}"] for key in ADAM_STATE)
        steps += 1
        count = float(steps)
        adam_flat(
            shared[name].view(-1).numpy(),
            first.view(-1).numpy(),
            second.view(-1).numpy(),
            slope.view(-1).numpy(),
            scale,
            (
                adam.beta1,
                adam.beta2,
                1 - adam.beta1**count,
                1 - adam.beta2**count,
                rate,
                adam.epsilon,
                adam.weight_decay,
            ),
        )
