"""What stands beside every result: chance, popularity, and the oracle that only shows a leak."""

from __future__ import annotations

import numpy as np

from tacit.data.sampling import DrawnNegatives
from tacit.data.views import HeldOut, TrainView
from tacit.evaluation.candidates import Candidates
from tacit.evaluation.ranking import Evaluation, rank, rank_one_list


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
