"""Scores of linear scorers over mixed views: one product for a block of readers.

A reader's logits are Σ_v w_v θ·F_vi + b = (w ⊗ θ)·F_i + b, so views are never mixed, only their
weights and the scorer are.
"""

from __future__ import annotations

import numpy as np

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, Params
from tacit.data.views import Lists
from tacit.engines.claims import linear_leaves
from tacit.engines.flat_network import Router
from tacit.engines.kernels.scores_cpu import weigh_views


def weights_of_readers(
    router: Router, p: Params, positives: Lists | None, user_B: np.ndarray
) -> np.ndarray:
    """(B, V): how much each view counts for each reader; `p` holds the views as "items".

    >>> import torch
    >>> alone = Router(count=1, softmaxes=1, is_private=True)
    >>> weights_of_readers(alone, {ITEMS: torch.zeros(3, 2)}, None, np.array([0, 1])).tolist()
    [[1.0], [1.0]]
    """
    view_IW = p[ITEMS].numpy()
    weight_BV = np.ones((len(user_B), router.count), view_IW.dtype)
    if not router.exists:
        return weight_BV
    assert positives is not None
    weigh_views(
        weight_BV,
        np.ascontiguousarray(user_B, dtype=np.int64),
        positives.start_U1,
        positives.item_N,
        view_IW,
        router.softmaxes,
        *router.leaves(p, view_IW.shape[1]),
        router.is_private,
        np.array([0.0, 1.0], view_IW.dtype),
    )
    return weight_BV


def score_views(
    lifted: Algorithm, p: Params, positives: Lists | None, user_B: np.ndarray
) -> np.ndarray:
    """Logits (B, I) of the clients' half of a fusion that `score_claim` claims."""
    router, linear = Router.of(lifted.method.items), linear_leaves(lifted.method.backbone)
    assert router is not None
    assert linear is not None
    vector, bias = linear
    view_IW, vector_BD = p[ITEMS].numpy(), p[vector].numpy()[user_B]
    weight_BV = weights_of_readers(router, p, positives, user_B)
    mixed_BVD = weight_BV[:, :, None] * vector_BD[:, None, :]
    score_BI: np.ndarray = mixed_BVD.reshape(len(user_B), -1) @ view_IW.T
    if bias is not None:
        score_BI += p[bias].numpy()[user_B][:, None]
    return score_BI
