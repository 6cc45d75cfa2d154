"""Held-out items that share a score share their ranks: they form one tie group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tacit.errors import TacitError, nearest
from tacit.evaluation.ranks import Ranks

Ties = Literal["expected", "pessimistic"]


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Groups of equal score that hold at least one relevant item, by user and then best first.

    A group of `size_G` candidates, `relevant_G` of them relevant, covers the ranks above + 1 ...
    above + size; within it every order is equally likely. `before_G` counts the user's relevant
    items in better groups. `relevant_E` counts all held-out items of a user, missed ones too.

    >>> alone = np.array([0])  # one user, one group: a tie over ranks 4 to 8
    >>> groups = TieGroups(alone, alone + 1, alone, alone + 3, alone + 5, alone + 1, alone)
    >>> groups.reached_G(5).tolist()
    [2]
    """

    user_E: np.ndarray  # codes, ascending
    relevant_E: np.ndarray
    user_G: np.ndarray  # positions in user_E
    above_G: np.ndarray
    size_G: np.ndarray
    relevant_G: np.ndarray
    before_G: np.ndarray

    def reached_G(self, k: int) -> np.ndarray:
        """How many places of the group lie within the first k."""
        return np.clip(k - self.above_G, 0, self.size_G)

    def total_E(self, value_G: np.ndarray) -> np.ndarray:
        """The sum of a value over each user's groups; 0 for a user whose items are all missed."""
        return np.bincount(self.user_G, weights=value_G, minlength=len(self.user_E))


def tie_groups(ranks: Ranks, ties: Ties = "expected") -> TieGroups:
    """Group the ranks; "pessimistic" puts relevant items last in their tie, one after another.

    >>> ranks = Ranks(*np.array([[5, 5], [1, 2], [3, 3], [4, 4], [9, 9]]), "test", "full")
    >>> both = tie_groups(ranks)
    >>> both.above_G.tolist(), both.size_G.tolist(), both.relevant_G.tolist()
    ([3], [5], [2])
    >>> tie_groups(ranks, "pessimistic").above_G.tolist()
    [6, 7]
    """
    if ties not in get_args(Ties):
        raise TacitError(f"Unknown tie rule {ties!r}; {nearest(str(ties), get_args(Ties))}")
    if len(ranks) == 0:
        raise TacitError(
            f"The {ranks.part} part holds no ranks, so no metric can be computed; "
            "check that the split holds out interactions."
        )
    user_E, user_H = np.unique(ranks.user_H, return_inverse=True)
    relevant_E = np.bincount(user_H)
    order = np.lexsort((ranks.above_H, user_H))
    order = order[~ranks.missed_H[order]]
    user_R, above_R, size_R = user_H[order], ranks.above_H[order], ranks.tied_H[order] + 1
    row_R = np.arange(len(order))
    before_R = row_R - np.searchsorted(user_R, user_R)
    opens_R = np.ones(len(order), dtype=bool)
    opens_R[1:] = (np.diff(user_R) != 0) | (np.diff(above_R) != 0)
    start_G = np.flatnonzero(opens_R)
    relevant_G = np.diff(np.append(start_G, len(order)))
    if ties == "pessimistic":
        group_R = np.cumsum(opens_R) - 1
        place_R = row_R - start_G[group_R]
        last_R = above_R + size_R - relevant_G[group_R] + place_R
        one_R = np.ones(len(order), dtype=np.int64)
        return TieGroups(user_E, relevant_E, user_R, last_R, one_R, one_R, before_R)
    user_G, above_G, size_G = user_R[start_G], above_R[start_G], size_R[start_G]
    return TieGroups(user_E, relevant_E, user_G, above_G, size_G, relevant_G, before_R[start_G])
