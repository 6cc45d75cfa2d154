"""Where a client's own history lies among the rows it touches."""

from __future__ import annotations

import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.types import PAST, PAST_WEIGHT, Params
from tacit.data.views import Lists, TrainView
from tacit.engines.draws import BlockDraws


def past_of_block(
    train: TrainView, user_B: np.ndarray, draws: BlockDraws
) -> tuple[np.ndarray, np.ndarray]:
    """(row_BH, weight_BH): positions of each client's train items in its rows, and 1 / how many.

    Every epoch of a round visits all of them, so they are all there; padding has weight 0.
    """
    own = [np.unique(train.positives[int(user)]) for user in user_B]
    longest = max(1, max(len(items) for items in own))
    row_BH = np.zeros((len(own), longest), dtype=np.int64)
    weight_BH = np.zeros((len(own), longest), dtype=draws.weight_SBW.dtype)
    place_I = np.full(train.n_items, -1, dtype=np.int64)
    for b, items in enumerate(own):
        touched = draws.item_BR[b, : draws.rows_B[b]]
        place_I[touched] = np.arange(len(touched))
        row_BH[b, : len(items)] = place_I[items]
        weight_BH[b, : len(items)] = 1.0 / max(1, len(items))
        place_I[touched] = -1
    return row_BH, weight_BH


def with_past(algorithm: Algorithm, p: Params, item_H: np.ndarray) -> Params:
    """The leaves of one client, whole tables, with content and the rows of its own history."""
    table = next(iter(p.values()))
    whole = {**p, **{leaf: value.to(table) for leaf, value in algorithm.content.items()}}
    if not algorithm.method.items.reads_history:
        return whole
    items = torch.from_numpy(np.unique(item_H))
    rows = (*algorithm.row_leaves, *algorithm.content)
    past = {f"{leaf}{PAST}": whole[leaf][items] for leaf in rows}
    weight_H = torch.full((len(items),), 1.0 / max(1, len(items)), dtype=table.dtype)
    return {**whole, **past, PAST_WEIGHT: weight_H}


def past_of_users(positives: Lists, user_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(item_BH, weight_BH): each user's own items, and 1 / how many; padding has weight 0.

    >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([3, 4, 5]), 2)
    >>> [part.tolist() for part in past_of_users(lists, np.array([0, 1]))]
    [[[3, 4], [5, 0]], [[0.5, 0.5], [1.0, 0.0]]]
    """
    own = [np.unique(positives[int(user)]) for user in user_B]
    longest = max(1, max(len(items) for items in own))
    item_BH = np.zeros((len(own), longest), dtype=np.int64)
    weight_BH = np.zeros((len(own), longest))
    for b, items in enumerate(own):
        item_BH[b, : len(items)] = items
        weight_BH[b, : len(items)] = 1.0 / max(1, len(items))
    return item_BH, weight_BH
