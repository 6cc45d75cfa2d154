"""What stands beside every result: chance, popularity, an oracle, and breakdowns by item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.data.replay import DrawnNegatives
from tacit.data.views import HeldOut, TrainView
from tacit.errors import TacitError
from tacit.evaluation.metrics import summary
from tacit.evaluation.ranking import Evaluation, ScoreBlock, rank, rank_one_list
from tacit.evaluation.ranks import Candidates, Ranks, Ties

# How far from chance a method that knows nothing may stray.


def chance_bound(n_users: int, probability: float, *, alpha: float = 1e-4) -> tuple[float, float]:
    """The shares of hits between which a method at chance stays, but for `alpha` of the time.

    Exact and two-sided: at most alpha / 2 of the binomial lies below the lower bound, and at most
    alpha / 2 above the upper one. `probability` is one user's chance of a hit, such as HR@10 of
    `references.chance`; where users have different chances their mean gives a wider, safe bound. It
    holds where held-out items are independent of each other, as in pure noise; in real data users
    share popular items, and a random ranking shared by all of them strays further.

    >>> low, high = chance_bound(1000, 0.1)
    >>> round(low, 3), round(high, 3)
    (0.065, 0.139)
    """
    if n_users < 1 or not 0 <= probability <= 1 or not 0 < alpha < 1:
        raise TacitError(
            f"A chance bound needs at least 1 user, a probability from 0 to 1 and an alpha between "
            f"0 and 1, not {n_users} users, {probability} and {alpha}; check the three numbers."
        )
    from scipy.stats import binom  # a second to import, and few runs need it

    low, high = (
        binom.ppf(alpha / 2, n_users, probability),
        binom.isf(alpha / 2, n_users, probability),
    )
    return float(low / n_users), float(high / n_users)


# Metrics apart for warm items, which occur in somebody's train items, and unseen ones.


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


def by_seen(
    ranks: Ranks,
    popularity_I: np.ndarray,
    cutoffs: Iterable[int] = (10,),
    names: Iterable[str] = ("HR", "Recall", "NDCG"),
    ties: Ties = "expected",
) -> dict[str, Share]:
    """Metrics of warm and of unseen held-out items, each over the users who have such an item.

    Where a user has held-out items of both kinds, those of the other kind are plain candidates.

    >>> ranks = Ranks(*np.array([[0, 1], [0, 1], [0, 90], [0, 0], [99, 99]]), "test", "full")
    >>> shares = by_seen(ranks, popularity_I=np.array([5, 0]), names=("HR",))
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


# What the top lists do to the catalogue: how much of it they show, and how popular that is.


def item_coverage(top_EK: np.ndarray, n_items: int) -> float:
    """The share of the catalogue that is recommended to anybody; -1 in a list is nothing.

    For a smaller cut-off give the first columns, `top_EK[:, :10]`.

    >>> item_coverage(np.array([[0, 1], [1, -1]]), n_items=4)
    0.5
    """
    shown_I = np.zeros(n_items, dtype=bool)
    shown_I[top_EK[top_EK >= 0]] = True
    return float(shown_I.sum() / n_items)


def mean_popularity(top_EK: np.ndarray, popularity_I: np.ndarray) -> float:
    """The mean train count of recommended items, over all places of all lists.

    >>> mean_popularity(np.array([[0, 1], [1, -1]]), np.array([7, 1, 5]))
    3.0
    """
    shown = top_EK[top_EK >= 0]
    return float(popularity_I[shown].mean()) if len(shown) else 0.0


# What stands beside every result: chance, popularity, and the oracle that only shows a leak.


def chance(held_out: HeldOut) -> Evaluation:
    """The ranks of a scorer that gives everything the same score, without any score.

    >>> from tacit.data.views import Lists
    >>> from tacit.evaluation.metrics import metric
    >>> one, none = Lists(np.array([0, 1]), np.array([3])), Lists.empty(1)
    >>> at_chance = chance(HeldOut("test", 40, np.array([0]), one, none, none))
    >>> metric(at_chance.full, "HR@10")
    0.25
    """
    candidates = Candidates.of(held_out)
    list_H = candidates.list_H
    tied_2H = np.stack([candidates.full_E[list_H], candidates.sampled_E[list_H]]) - 1
    return Evaluation.of_counts(held_out, candidates, np.zeros_like(tied_2H), tied_2H)


def popularity(train: TrainView, held_out: HeldOut) -> Evaluation:
    """Everybody gets the items' train counts: what one learns without knowing the user.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 2, 3]), np.array([0, 2, 2]))
    >>> train = TrainView(3, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> one, none = Lists(np.array([0, 1]), np.array([0])), Lists.empty(1)
    >>> popularity(train, HeldOut("test", 3, np.array([1]), one, none, none)).full.above_H.tolist()
    [1]
    """
    return rank_one_list(train.popularity_I().astype(np.float64), held_out)


def never_sampled(drawn: DrawnNegatives, held_out: HeldOut, threads: int = 1) -> Evaluation:
    """The ranks of an order that puts first what was never drawn as a negative for the user.

    This oracle learns nothing. Where held-out items are kept out of the negatives it still ranks
    them first, and so shows how much of a result such a leak can explain; with a clean pool it
    tells nothing about them.

    >>> from tacit.data.sampling import Sampling
    >>> from tacit.data.views import Lists
    >>> own, none = Lists(np.array([0, 1]), np.array([1])), Lists.empty(1)
    >>> train = TrainView(2, own, np.array([5], np.uint64), none)
    >>> here = [(1, np.array([0]))]
    >>> drawn = DrawnNegatives.of(train, Sampling(1), seed=0, rounds=here, epochs=1)
    >>> never_sampled(drawn, HeldOut("test", 2, np.array([0]), own, none, none)).full.above_H
    array([0])
    """

    def scores(user_B: np.ndarray) -> np.ndarray:
        return (drawn.rounds_BI(user_B) == 0).astype(np.float32)

    return rank(scores, held_out, threads=threads)


# What stands beside a result on items that nobody has touched.


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
