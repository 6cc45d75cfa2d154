"""Metrics apart for warm items, which occur in somebody's train items, and unseen ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tacit.evaluation.metrics import summary
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.tie_groups import Ties


@dataclass(frozen=True)
class Share:
    """One kind of held-out items: how many there are, of how many users, and their metrics.

    `adds` is what this kind contributes to the metrics of all users. It is given where everybody
    has one held-out item, so that both kinds add up to the whole.

    >>> Share(users=0, held_out=0, values={}, adds={}).values
    {}
    """

    users: int
    held_out: int
    values: Mapping[str, float]  # empty when there is nothing to average
    adds: Mapping[str, float]


def by_warmth(
    ranks: Ranks,
    popularity_I: np.ndarray,
    cutoffs: Iterable[int] = (10,),
    names: Iterable[str] = ("HR", "Recall", "NDCG"),
    ties: Ties = "expected",
) -> dict[str, Share]:
    """Metrics of warm and of unseen held-out items, each over the users who have such an item.

    Where a user has held-out items of both kinds, those of the other kind are plain candidates.

    >>> ranks = Ranks(*np.array([[0, 1], [0, 1], [0, 90], [0, 0], [99, 99]]), "test", "full")
    >>> shares = by_warmth(ranks, popularity_I=np.array([5, 0]), names=("HR",))
    >>> shares["warm"]
    Share(users=1, held_out=1, values={'HR@10': 1.0}, adds={'HR@10': 0.5})
    >>> shares["unseen"].values
    {'HR@10': 0.0}
    """
    cutoffs, names = tuple(cutoffs), tuple(names)
    warm_H = popularity_I[ranks.item_H] > 0
    everybody = len(np.unique(ranks.user_H))

    def share(rows_H: np.ndarray) -> Share:
        some = ranks.where(rows_H)
        values = summary(some, cutoffs, names, ties) if len(some) else {}
        users = len(np.unique(some.user_H))
        part = users / everybody if everybody == len(ranks) else None
        adds = {} if part is None else {name: part * value for name, value in values.items()}
        return Share(users, len(some), values, adds)

    return {"warm": share(warm_H), "unseen": share(~warm_H)}
