"""What stands beside every result: chance, popularity, and the oracle that only shows a leak."""

from __future__ import annotations

import numpy as np

from tacit.data.views import HeldOut, TrainView
from tacit.evaluation.candidates import Candidates
from tacit.evaluation.ranking import Evaluation, ScoreBlock


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


def popularity_scores(train: TrainView) -> ScoreBlock:
    """Every user gets the items' train counts: what one learns without knowing the user.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 2, 3]), np.array([0, 2, 2]))
    >>> train = TrainView(3, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> popularity_scores(train)(np.array([1])).tolist()
    [[1.0, 0.0, 2.0]]
    """
    popularity_I = train.popularity_I().astype(np.float64)
    return lambda user_B: np.tile(popularity_I, (len(user_B), 1))


def never_sampled_scores(drawn_UI: np.ndarray) -> ScoreBlock:
    """1 for items that were never drawn as a negative for the user, else 0.

    This oracle learns nothing. Where held-out items are kept out of the negatives it still ranks
    them first, and so shows how much of a result such a leak can explain; with a clean pool it
    tells nothing about them. `drawn_UI` counts (or flags) the draws of each user and item.

    >>> never_sampled_scores(np.array([[0, 3, 1]]))(np.array([0])).tolist()
    [[1.0, 0.0, 0.0]]
    """
    return lambda user_B: (drawn_UI[user_B] == 0).astype(np.float32)
