"""FedPerGNN for all clients at once: passes over ragged histories and compiled loops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vjp

from tacit.compiled import compiled
from tacit.core.ragged import RaggedBatch
from tacit.core.types import Params
from tacit.data.views import Lists
from tacit.methods.fedpergnn_model import LEAK, joined

# Compiled loops of FedPerGNN over all clients: pooling histories, scoring samples, and back.
#
# Kernels compute in the tables' own kind of float. Sums that go to the server count who reports; a
# client's own gradient does not. P are clients, I items, D the width, E the head's hidden width.

# Reassociation lets sums vectorise; NaN and infinity keep their meaning.
_compiled = compiled(fastmath={"contract", "arcp", "nsz", "reassoc"}, error_model="numpy")


class Attention(NamedTuple):
    """What a history is pooled with; `weight_N` is room for its weights."""

    start: np.ndarray
    item: np.ndarray
    joined_ID: np.ndarray
    pool_I: np.ndarray
    mine_P: np.ndarray
    leak: Any
    weight_N: np.ndarray

    @classmethod
    def of(cls, history: Lists, joined_ID: Tensor, pool_I: Tensor, mine_P: Tensor) -> Attention:
        leak = pool_I.new_tensor(LEAK).numpy()[()]
        weight_N = np.empty(len(history.item_N), dtype=pool_I.numpy().dtype)
        tensors = (joined_ID.numpy(), pool_I.numpy(), mine_P.numpy())
        return cls(history.start_U1, history.item_N, *tensors, leak, weight_N)


class Head(NamedTuple):
    """A logit is out · relu(value of the item + shift of the client) + bias; without `rectify` the
    rectifier is left out."""

    value_IE: np.ndarray
    shift_PE: np.ndarray
    out_E: np.ndarray
    bias: Any
    rectify: bool


class Samples(NamedTuple):
    """The samples of all clients, one after another."""

    start: np.ndarray
    item: np.ndarray
    label_N: np.ndarray


@_compiled
def pool(attention, pooled_PD):  # type: ignore[no-untyped-def]
    """Attention over each history: its weights, and the items pooled into zeros."""
    start, item, joined_ID, pool_I, mine_P, leak, weight_N = attention
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
    attention, pooled_slope_PD, report_P, joined_slope_ID, pool_slope_I, mine_slope_P
):
    """The gradient of `pool`, added to the last three."""
    start, item, joined_ID, pool_I, mine_P, leak, weight_N = attention
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
    samples, head, squared, report_P, value_slope_IE, shift_slope_PE, out_slope_E
):
    """The gradient of each client's mean loss over its samples; returns the output bias's.

    `squared` is squared error of the probability instead of cross-entropy.
    """
    start, item, label_N = samples
    value_IE, shift_PE, out_E, bias, rectify = head
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
def head_scores(head, score_PI):  # type: ignore[no-untyped-def]
    """Logits of all items for some clients."""
    value_IE, shift_PE, out_E, bias, rectify = head
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


# FedPerGNN for all clients at once.
#
# What an item gathers from its neighbours, and what a candidate brings to the head, are the same
# for every client: they are made once for all items. A client adds its attention over its history
# and a shift of the head's hidden layer. Gradients come back the same way, summed before they go
# through the items' part.


def of_items(p: Params, slots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each item: joined to its neighbours, its part of the attention, its part of the head."""
    joined_ID = joined(p, p["items"], slots)
    dim = joined_ID.shape[1]
    candidate_ID = torch.sigmoid(p["items"] @ p["candidate.w"] + p["candidate.b"])
    return joined_ID, joined_ID @ p["pool.w"][dim:], candidate_ID @ _head(p)[dim:]


def of_users(p: Params, user_PD: Tensor) -> tuple[Tensor, Tensor]:
    """Of each client: its hidden vector and its part of the attention."""
    hidden_PD = torch.sigmoid(user_PD @ p["own.w"] + p["own.b"])
    return hidden_PD, hidden_PD @ p["pool.w"][: user_PD.shape[1]] + p["pool.b"]


def of_people(p: Params, pooled_PD: Tensor, hidden_PD: Tensor) -> Tensor:
    """Of each client: what it adds to the head's hidden layer."""
    person_PD = torch.cat([pooled_PD, hidden_PD], 1) @ p["person.w"] + p["person.b"]
    return person_PD @ _head(p)[: person_PD.shape[1]] + p["head.b"]


def _head(p: Params) -> Tensor:
    """The head's weights; a head without a hidden layer is one of width 1."""
    return p["head.w"] if "out.w" in p else p["head.w"][:, None]


def _out(p: Params) -> tuple[np.ndarray, Any, bool]:
    """Weights and bias behind the hidden layer, and whether there is one."""
    if "out.w" in p:
        return p["out.w"].numpy(), p["out.b"].numpy()[()], True
    one = p["head.w"].new_ones(1).numpy()
    return one, one.dtype.type(0), False


def slopes(
    p: Params, slots: Tensor, user_PD: Tensor, batch: RaggedBatch, squared: bool
) -> tuple[Tensor, Params]:
    """Gradients of the clients' own vectors, and the sum of the others over who reports."""
    (joined_ID, pool_I, value_IE), items_back = vjp(lambda q: of_items(q, slots), p)[:2]
    (hidden_PD, mine_P), users_back = vjp(of_users, p, user_PD)[:2]
    report_P = torch.from_numpy(batch.reports_P).to(user_PD)
    pooled_PD = torch.zeros_like(user_PD)
    attention = Attention.of(batch.history, joined_ID, pool_I, mine_P)
    pool(attention, pooled_PD.numpy())
    shift_PE, people_back = vjp(of_people, p, pooled_PD, hidden_PD)[:2]
    head = Head(value_IE.numpy(), shift_PE.numpy(), *_out(p))
    value_slope, shift_slope = torch.zeros_like(value_IE), torch.zeros_like(shift_PE)
    out_slope = np.zeros(len(head.out_E), dtype=np.float64)
    bias_slope = head_back(
        Samples(batch.samples.start_U1, batch.samples.item_N, batch.label_N),
        head,
        squared,
        report_P.numpy(),
        value_slope.numpy(),
        shift_slope.numpy(),
        out_slope,
    )
    _, pooled_slope, hidden_slope = people_back(shift_slope)
    joined_slope, pool_slope = torch.zeros_like(joined_ID), torch.zeros_like(pool_I)
    mine_slope = torch.zeros_like(mine_P)
    pool_back(
        attention,
        pooled_slope.contiguous().numpy(),
        report_P.numpy(),
        joined_slope.numpy(),
        pool_slope.numpy(),
        mine_slope.numpy(),
    )
    _, own_slope = users_back((hidden_slope, mine_slope))
    # a second pull, over the clients that report alone
    counted = report_P[:, None]
    parts = (
        items_back((joined_slope, pool_slope, value_slope))[0],
        people_back(counted * shift_slope)[0],
        users_back((counted * hidden_slope, report_P * mine_slope))[0],
    )
    total = {name: parts[0][name] + parts[1][name] + parts[2][name] for name in p}
    if head.rectify:
        total["out.w"] = torch.from_numpy(out_slope)
        total["out.b"] = torch.tensor(bias_slope, dtype=torch.float64)
    return own_slope, total


def claimed_slots(
    number_N: Tensor, vector_P1: Tensor, batch: RaggedBatch, shape: torch.Size
) -> Tensor:
    """The vectors that arrive at each item's slots; a number beyond the slots claims none."""
    client_N = torch.from_numpy(np.repeat(np.arange(len(batch.user_P)), batch.history.size_U))
    item_N = torch.from_numpy(batch.history.item_N)
    sends_N = (number_N < shape[1]) & torch.from_numpy(batch.reports_P)[client_N]
    total = torch.zeros(shape, dtype=torch.float64)
    slot_N = item_N[sends_N] * shape[1] + number_N[sends_N].long()
    total.view(-1, shape[2]).index_add_(0, slot_N, vector_P1.double()[client_N[sends_N]])
    return total


def matches(batch: RaggedBatch, n_items: int) -> Tensor:
    """How many clients report each item."""
    reports_N = np.repeat(batch.reports_P, batch.history.size_U)
    return torch.from_numpy(np.bincount(batch.history.item_N, reports_N, n_items))


def ragged_scores(p: Params, slots: Tensor, user_PD: Tensor, history: Lists) -> Tensor:
    """Logits of all items for each client."""
    joined_ID, pool_I, value_IE = of_items(p, slots)
    hidden_PD, mine_P = of_users(p, user_PD)
    pooled_PD = torch.zeros_like(user_PD)
    pool(Attention.of(history, joined_ID, pool_I, mine_P), pooled_PD.numpy())
    score_PI = user_PD.new_empty(len(user_PD), len(value_IE))
    shift_PE = of_people(p, pooled_PD, hidden_PD)
    head_scores(Head(value_IE.numpy(), shift_PE.numpy(), *_out(p)), score_PI.numpy())
    return score_PI
