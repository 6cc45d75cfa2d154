"""FedPerGNN for all clients at once.

What an item gathers from its neighbours, and what a candidate brings to the head, are the same for
every client: they are made once for all items. A client adds its attention over its history and a
shift of the head's hidden layer. Gradients come back the same way, summed before they go through
the items' part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import vjp

from tacit.core.crowd import Crowd
from tacit.core.types import Params
from tacit.data.views import Lists
from tacit.methods.fedpergnn_kernels import head_back, head_scores, pool, pool_back
from tacit.methods.fedpergnn_model import LEAK, joined


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
    p: Params, slots: Tensor, user_PD: Tensor, crowd: Crowd, squared: bool
) -> tuple[Tensor, Params]:
    """Gradients of the clients' own vectors, and the sum of the others over who reports."""
    (joined_ID, pool_I, value_IE), items_back = vjp(lambda q: of_items(q, slots), p)[:2]
    (hidden_PD, mine_P), users_back = vjp(of_users, p, user_PD)[:2]
    leak = pool_I.new_tensor(LEAK).numpy()[()]
    report_P = torch.from_numpy(crowd.reports_P).to(user_PD)
    history = (crowd.history.start_U1, crowd.history.item_N)
    weight_N = np.empty(len(crowd.history.item_N), dtype=pool_I.numpy().dtype)
    pooled_PD = torch.zeros_like(user_PD)
    attention = (joined_ID.numpy(), pool_I.numpy(), mine_P.numpy(), leak, weight_N)
    pool(*history, *attention, pooled_PD.numpy())
    shift_PE, people_back = vjp(of_people, p, pooled_PD, hidden_PD)[:2]
    out_E, bias, rectify = _out(p)
    value_slope, shift_slope = torch.zeros_like(value_IE), torch.zeros_like(shift_PE)
    out_slope = np.zeros(len(out_E), dtype=np.float64)
    bias_slope = head_back(
        crowd.samples.start_U1,
        crowd.samples.item_N,
        crowd.label_N,
        value_IE.numpy(),
        shift_PE.numpy(),
        out_E,
        bias,
        rectify,
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
        *history,
        *attention,
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
    total = {leaf: parts[0][leaf] + parts[1][leaf] + parts[2][leaf] for leaf in p}
    if rectify:
        total["out.w"] = torch.from_numpy(out_slope)
        total["out.b"] = torch.tensor(bias_slope, dtype=torch.float64)
    return own_slope, total


def claimed_slots(number_N: Tensor, vector_P1: Tensor, crowd: Crowd, shape: torch.Size) -> Tensor:
    """The vectors that arrive at each item's slots; a number beyond the slots claims none."""
    client_N = torch.from_numpy(np.repeat(np.arange(len(crowd.user_P)), crowd.history.size_U))
    item_N = torch.from_numpy(crowd.history.item_N)
    sends_N = (number_N < shape[1]) & torch.from_numpy(crowd.reports_P)[client_N]
    total = torch.zeros(shape, dtype=torch.float64)
    slot_N = item_N[sends_N] * shape[1] + number_N[sends_N].long()
    total.view(-1, shape[2]).index_add_(0, slot_N, vector_P1.double()[client_N[sends_N]])
    return total


def matches(crowd: Crowd, n_items: int) -> Tensor:
    """How many clients report each item."""
    reports_N = np.repeat(crowd.reports_P, crowd.history.size_U)
    return torch.from_numpy(np.bincount(crowd.history.item_N, reports_N, n_items))


def crowd_scores(p: Params, slots: Tensor, user_PD: Tensor, history: Lists) -> Tensor:
    """Logits of all items for each client."""
    joined_ID, pool_I, value_IE = of_items(p, slots)
    hidden_PD, mine_P = of_users(p, user_PD)
    leak = pool_I.new_tensor(LEAK).numpy()[()]
    pooled_PD = torch.zeros_like(user_PD)
    weight_N = np.empty(len(history.item_N), dtype=pool_I.numpy().dtype)
    pool(
        history.start_U1,
        history.item_N,
        joined_ID.numpy(),
        pool_I.numpy(),
        mine_P.numpy(),
        leak,
        weight_N,
        pooled_PD.numpy(),
    )
    score_PI = user_PD.new_empty(len(user_PD), len(value_IE))
    shift_PE = of_people(p, pooled_PD, hidden_PD)
    head_scores(value_IE.numpy(), shift_PE.numpy(), *_out(p), score_PI.numpy())
    return score_PI
