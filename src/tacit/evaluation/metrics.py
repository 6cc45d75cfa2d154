"""Ranking metrics as functions of ranks, exact over all orders of tied candidates.

Conventions are those of ir-measures: HR is Success, Recall R, Precision P, NDCG nDCG with binary
gain and log2, MRR RR, MAP AP divided by the number of relevant items. A metric is a function of the
tie groups and the cut-off, one value per user; to add one, write it and name it in METRICS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from tacit.errors import TacitError, nearest
from tacit.evaluation.ranks import Ranks, TieGroups, Ties, tie_groups

Metric = Callable[[TieGroups, int], np.ndarray]


def hit_rate(groups: TieGroups, k: int) -> np.ndarray:
    """Is any relevant item among the first k? Only the user's best group can leave that open.

    >>> groups = tie_groups(Ranks(*np.array([[0], [5], [1], [2], [9]]), "test", "full"))
    >>> hit_rate(groups, 2).round(3).tolist()
    [0.333]
    """
    best = groups.before_G == 0
    size, relevant, reached = (
        groups.size_G[best],
        groups.relevant_G[best],
        groups.reached_G(k)[best],
    )
    hit = reached / size  # exact for one relevant item
    several = relevant > 1
    # No relevant item among the reached places: C(size - reached, r) / C(size, r), as a product.
    none = np.ones(int(several.sum()))
    for taken in range(int(relevant.max(initial=0))):
        left = np.maximum(size - reached - taken, 0)[several] / np.maximum(size - taken, 1)[several]
        none = np.where(taken < relevant[several], none * left, none)
    hit[several] = 1.0 - none
    return _place(groups, best, hit)


def recall(groups: TieGroups, k: int) -> np.ndarray:
    """The share of the user's relevant items among the first k.

    >>> groups = tie_groups(Ranks(*np.array([[0], [5], [1], [2], [9]]), "test", "full"))
    >>> recall(groups, 3).round(3).tolist()
    [0.667]
    """
    return _found(groups, k) / groups.relevant_E


def precision(groups: TieGroups, k: int) -> np.ndarray:
    """The share of the first k that is relevant.

    >>> groups = tie_groups(Ranks(*np.array([[0], [5], [1], [2], [9]]), "test", "full"))
    >>> precision(groups, 5).tolist()
    [0.2]
    """
    return _found(groups, k) / k


def ndcg(groups: TieGroups, k: int) -> np.ndarray:
    """Discounted gain 1 / log2(rank + 1) within k, divided by that of the best possible list.

    >>> groups = tie_groups(Ranks(*np.array([[0], [5], [1], [2], [9]]), "test", "full"))
    >>> ndcg(groups, 3).round(3).tolist()  # (1 / log2(3) + 1 / log2(4)) / 3
    [0.377]
    """
    gain_K = 1.0 / np.log2(np.arange(2, k + 2))
    ideal_E = _prefix_sums(gain_K)[np.minimum(groups.relevant_E, k)]
    return groups.total_E(_spread(groups, gain_K)) / ideal_E


def mrr(groups: TieGroups, k: int) -> np.ndarray:
    """1 / rank of the first relevant item within k, else 0.

    >>> groups = tie_groups(Ranks(*np.array([[0], [5], [1], [2], [9]]), "test", "full"))
    >>> mrr(groups, 3).round(3).tolist()  # (1 / 2 + 1 / 3) / 3
    [0.278]
    """
    best = groups.before_G == 0
    value = _spread(groups, 1.0 / np.arange(1, k + 1))[best]  # right for one relevant item
    several = groups.relevant_G[best] > 1
    above, size = groups.above_G[best][several], groups.size_G[best][several]
    relevant, reached = groups.relevant_G[best][several], groups.reached_G(k)[best][several]
    total, chance = np.zeros(len(above)), relevant / size
    for place in range(1, int(reached.max(initial=0)) + 1):
        # `chance` is that of the first relevant item standing at this place of the group.
        total += np.where(place <= reached, chance / (above + place), 0.0)
        chance = chance * np.maximum(size - place - relevant + 1, 0) / np.maximum(size - place, 1)
    value[several] = total
    return _place(groups, best, value)


def average_precision(groups: TieGroups, k: int) -> np.ndarray:
    """Precision at each relevant item within k, summed and divided by the relevant items.

    >>> groups = tie_groups(Ranks(*np.array([[0], [5], [1], [2], [9]]), "test", "full"))
    >>> average_precision(groups, 3).round(3).tolist()
    [0.278]
    """
    # A relevant item at place j of its group has before + 1 + pace * (j - 1) relevant items down to
    # and with itself, in expectation; with j = rank - above the sum over places splits in two.
    pace = (groups.relevant_G - 1) / np.maximum(groups.size_G - 1, 1)
    fixed = groups.before_G + 1 - pace * (groups.above_G + 1)
    inverse = _spread(groups, 1.0 / np.arange(1, k + 1))
    steady = pace * groups.relevant_G * groups.reached_G(k) / groups.size_G
    return groups.total_E(fixed * inverse + steady) / groups.relevant_E


METRICS: dict[str, Metric] = {
    "HR": hit_rate,
    "Recall": recall,
    "Precision": precision,
    "NDCG": ndcg,
    "MRR": mrr,
    "MAP": average_precision,
}


def per_user(ranks: Ranks, name: str, ties: Ties = "expected") -> tuple[np.ndarray, np.ndarray]:
    """User codes (ascending) and the metric of each, as in `per_user(ranks, "NDCG@10")`.

    >>> ranks = Ranks(*np.array([[4, 2], [0, 1], [9, 0], [1, 0], [50, 50]]), "test", "full")
    >>> user_E, value_E = per_user(ranks, "HR@10")
    >>> user_E.tolist(), value_E.tolist()
    ([2, 4], [1.0, 0.5])
    """
    function, k = parse_metric(name)
    groups = tie_groups(ranks, ties)
    return groups.user_E, function(groups, k)


def metric(ranks: Ranks, name: str, ties: Ties = "expected") -> float:
    """The mean of a metric over users.

    >>> ranks = Ranks(*np.array([[4, 2], [0, 1], [9, 0], [1, 0], [50, 50]]), "test", "full")
    >>> metric(ranks, "HR@10"), metric(ranks, "HR@10", ties="pessimistic")
    (0.75, 0.5)
    """
    return float(per_user(ranks, name, ties)[1].mean())


def summary(
    ranks: Ranks,
    cutoffs: Iterable[int] = (5, 10, 20, 50, 100),
    names: Iterable[str] = ("HR", "Recall", "NDCG"),
    ties: Ties = "expected",
) -> dict[str, float]:
    """Several metrics at several cut-offs.

    >>> ranks = Ranks(*np.array([[4, 2], [0, 1], [9, 0], [1, 0], [50, 50]]), "test", "full")
    >>> summary(ranks, cutoffs=(1, 10), names=("HR",))
    {'HR@1': 0.5, 'HR@10': 0.75}
    """
    groups = tie_groups(ranks, ties)
    wanted = {f"{name}@{k}": parse_metric(f"{name}@{k}") for name in names for k in cutoffs}
    return {key: float(function(groups, k).mean()) for key, (function, k) in wanted.items()}


def parse_metric(text: str) -> tuple[Metric, int]:
    """The function and the (largest) cut-off of a name such as "HR@10"; "Recall@20+50" is the mean
    over both cut-offs.

    >>> parse_metric("HR@10")[1]
    10
    """
    name, _, rest = text.partition("@")
    if name not in METRICS:
        raise TacitError(f"Unknown metric {name!r} in {text!r}; {nearest(name, METRICS)}")
    cutoffs = rest.split("+")
    for cutoff in cutoffs:
        if not (cutoff.isascii() and cutoff.isdigit() and int(cutoff) > 0):
            raise TacitError(
                f"Metric {text!r} needs a whole cut-off of at least 1 after '@', as in '{name}@10'."
            )
    if len(cutoffs) == 1:
        return METRICS[name], int(cutoffs[0])
    several = sorted(int(cutoff) for cutoff in cutoffs)
    return partial(_mean_over, METRICS[name], several), several[-1]


def _mean_over(function: Metric, cutoffs: list[int], groups: TieGroups, k: int) -> np.ndarray:
    """The mean of a metric at several cut-offs, none beyond k."""
    return np.mean([function(groups, min(cutoff, k)) for cutoff in cutoffs], axis=0)


def _prefix_sums(term_K: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(term_K)])


def _spread(groups: TieGroups, term_K: np.ndarray) -> np.ndarray:
    """A term of the rank, summed over a group's places within k; each is relevant by r / size."""
    k = len(term_K)
    low, reached = np.minimum(groups.above_G, k), groups.reached_G(k)
    prefix = _prefix_sums(term_K)
    places = prefix[low + reached] - prefix[low]
    alone = reached == 1
    places[alone] = term_K[low[alone]]  # a difference of sums would lose the last digits
    return places * groups.relevant_G / groups.size_G


def _found(groups: TieGroups, k: int) -> np.ndarray:
    return groups.total_E(groups.relevant_G * groups.reached_G(k) / groups.size_G)


def _place(groups: TieGroups, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Values of users' best groups as values of users; a user without a group has 0."""
    value_E = np.zeros(len(groups.user_E))
    value_E[groups.user_G[rows]] = value
    return value_E
