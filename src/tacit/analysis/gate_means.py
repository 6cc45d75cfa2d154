"""Gates of all users, reduced to what groups are compared by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit.core.types import ITEMS, OWN_ITEMS, Params
from tacit.engines.state import State
from tacit.sync.guidance import AdaptiveGuidance


@dataclass(frozen=True, eq=False)
class GateMeans:
    """Each user's mean gate and mean logit, over popular items and over all items."""

    value_popular_U: np.ndarray
    logit_popular_U: np.ndarray
    value_all_U: np.ndarray
    logit_all_U: np.ndarray
    untouched: bool  # every gate is exactly one half


@torch.no_grad()
def gate_means(sync: AdaptiveGuidance, state: State, popular_I: np.ndarray) -> GateMeans:
    """Gates of all users, one user at a time: all of them at once would be a table of users by
    items. In double precision, since trained gates differ in the fourth digit."""
    n_users = len(state.private[OWN_ITEMS])
    mean_4U, untouched = np.empty((4, n_users)), True
    global_ID = state.shared[ITEMS].double()
    for user in range(n_users):
        p: Params = {name: state.private[name][user].double() for name in sync.gate_leaves}
        p |= {OWN_ITEMS: state.private[OWN_ITEMS][user].double(), ITEMS: global_ID}
        logit_I = sync.gate_logit(p).expand(len(global_ID)).numpy()
        value_I = sync.gate(p).expand(len(global_ID)).numpy()
        untouched = untouched and bool((value_I == 0.5).all())
        mean_4U[:, user] = (
            value_I[popular_I].mean(),
            logit_I[popular_I].mean(),
            value_I.mean(),
            logit_I.mean(),
        )
    value_popular_U, logit_popular_U, value_all_U, logit_all_U = mean_4U
    return GateMeans(value_popular_U, logit_popular_U, value_all_U, logit_all_U, untouched)
