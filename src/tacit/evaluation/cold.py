"""What stands beside a result on items that nobody has touched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.data.views import HeldOut
from tacit.evaluation.ranking import ScoreBlock


def top_shares(held_out: HeldOut, tops: Sequence[int] = (1, 5, 20)) -> dict[str, float]:
    """The share of held-out interactions that the most touched cold items hold: where one item has
    most of them, a recall hangs on that item's place.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 1, 3]), np.array([4, 4, 5]))
    >>> part = HeldOut("test", 6, np.array([0, 1]), lists, Lists.empty(2), Lists.empty(2))
    >>> top_shares(part, (1,))
    {'top1': 0.6666666666666666}
    """
    count_I = np.sort(np.bincount(held_out.relevant.item_N, minlength=held_out.n_items))[::-1]
    return {f"top{k}": float(count_I[:k].sum() / count_I.sum()) for k in tops}


def mean_scores(scores: ScoreBlock, user_E: np.ndarray, block: int = 256) -> np.ndarray:
    """The mean logits of all users: for linear scorers, those of the mean scorer. What their one
    list reaches is what a model knows of items without knowing people.

    >>> logits_UI = np.array([[0.0, 2.0], [4.0, 0.0]])
    >>> mean_scores(lambda users: logits_UI[users], np.array([0, 1])).tolist()
    [2.0, 1.0]
    """
    total_I: np.ndarray | float = 0.0
    for first in range(0, len(user_E), block):
        total_I = total_I + scores(user_E[first : first + block]).astype(np.float64).sum(axis=0)
    return np.asarray(total_I) / len(user_E)


def ndcg_index_order(top_EK: np.ndarray, held_out: HeldOut, k: int) -> float:
    """The NDCG that IFedRec and MDiffFR print: the first k in the order of item codes, not of
    ranks, collect the discounts. Wrong, and only for comparison with their tables.

    >>> from tacit.data.views import Lists
    >>> one = Lists(np.array([0, 1]), np.array([2]))
    >>> part = HeldOut("test", 4, np.array([0]), one, Lists.empty(1), Lists.empty(1))
    >>> round(ndcg_index_order(np.array([[2, 0, 1]]), part, 3), 3)  # first by rank, last by code
    0.5
    """
    gain_K = 1.0 / np.log2(np.arange(2, k + 2))
    total = 0.0
    for list_K, place in zip(top_EK[:, :k], range(len(held_out.user_E)), strict=True):
        relevant = held_out.relevant[place]
        shown = np.sort(list_K[list_K >= 0])
        hit = np.isin(shown, relevant)
        total += gain_K[: len(shown)][hit].sum() / gain_K[: min(k, len(relevant))].sum()
    return float(total / len(held_out.user_E))
