"""Logits of linear scorers over rows that are read where they lie."""

from __future__ import annotations

import numba

from tacit.engines.kernels.linear_cpu import _FAST, _dot


@numba.njit(cache=True, fastmath=_FAST, error_model="numpy")
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


@numba.njit(cache=True, fastmath=_FAST, error_model="numpy")
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
