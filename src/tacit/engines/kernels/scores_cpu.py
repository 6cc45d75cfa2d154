"""Logits of linear scorers over rows that are read where they lie."""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.linear_cpu import _FAST, _dot
from tacit.engines.kernels.router_pass import activate, make_history, read_history, weigh


@compiled(fastmath=_FAST, error_model="numpy")
def overlay_linear(  # type: ignore[no-untyped-def]
    score_BI, users, start, count, tuned_item, tuned_value, vector_UD, bias_U, has_bias
):
    """Write the logits of each user's tuned rows over the scores made with the global table."""
    width = vector_UD.shape[1]
    for b in range(len(users)):
        user = users[b]
        for c in range(start[user], start[user] + count[user]):
            logit = _dot(tuned_value[c], vector_UD[user], width)
            if has_bias:
                logit += bias_U[user]
            score_BI[b, tuned_item[c]] = logit


@compiled(fastmath=_FAST, error_model="numpy")
def score_own_linear(  # type: ignore[no-untyped-def]
    score_BI, users, own, vector_UD, bias_U, has_bias
):
    """Logits of each user over its own dense table, which is read in place."""
    width = vector_UD.shape[1]
    for b in range(len(users)):
        user = users[b]
        for item in range(own.shape[1]):
            logit = _dot(own[user, item], vector_UD[user], width)
            if has_bias:
                logit += bias_U[user]
            score_BI[b, item] = logit


@compiled(fastmath=_FAST, error_model="numpy")
def weigh_views(  # type: ignore[no-untyped-def]
    weight_BV,
    users,
    positive_start,
    positive_item,
    view_IW,
    softmaxes,
    first_UWK,
    shift_UK,
    second_UKV,
    offset_UV,
    is_private,
    constants,
):
    """Each reader's weights of the views, from the history; equal ones where there is none."""
    zero, one = constants[0], constants[1]
    width, count = view_IW.shape[1], weight_BV.shape[1]
    longest = 1
    for user in users:
        longest = max(longest, positive_start[user + 1] - positive_start[user])
    blocked = np.zeros(len(view_IW), np.uint8)
    history = make_history(longest, width, shift_UK.shape[1], count, view_IW)
    for b in range(len(users)):
        user = users[b]
        router = user if is_private else 0
        positives = positive_item[positive_start[user] : positive_start[user + 1]]
        n = read_history(view_IW, positives, blocked, history)
        if n == 0:
            weight_BV[b] = one / view_IW.dtype.type(count)
            continue
        activate(first_UWK[router], shift_UK[router], n, history)
        share = one / view_IW.dtype.type(n)
        weigh(second_UKV[router], offset_UV[router], softmaxes, n, share, zero, history)
        weight_BV[b] = history.weight[0]
