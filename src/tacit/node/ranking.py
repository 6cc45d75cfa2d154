"""Lists from local state alone, without torch.

When a model is delivered, and after each round, a node keeps a score of every item for each of its
people. Where a method adds up rows of a matrix over the history, the matrix is kept as well, with
how much an item counts by its age. What was recorded since then counts at once by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.node.catalogue import Catalogue
from tacit.node.history import Histories
from tacit.node.store import Content, Store

BOX_NAME = "ranking"
SCORES, MATRIX, AGE_WEIGHT, START, ITEM = "scores", "matrix", "age_weight", "start", "item"


@dataclass(frozen=True)
class Line:
    """One line of a list: place, item id, title where known, and score."""

    rank: int
    item: str
    title: str | None
    score: float


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Logits that are sums over a history: a row of the matrix for each item, times the weight of
    its age (how many items came after it). `start_U1` and `item_N` are the histories, each from
    the earliest to the latest, that the scores beside it were made from."""

    matrix_II: np.ndarray
    weight_A: np.ndarray
    start_U1: np.ndarray
    item_N: np.ndarray

    def history(self, person: int) -> np.ndarray:
        return self.item_N[self.start_U1[person] : self.start_U1[person + 1]]

    def of(self, item_H: np.ndarray) -> np.ndarray:
        """(I,) logits of a history from the earliest to the latest."""
        age_H = np.arange(len(item_H))[::-1]
        weight_H = self.weight_A[np.minimum(age_H, len(self.weight_A) - 1)]
        scores_I: np.ndarray = weight_H @ self.matrix_II[item_H]
        return scores_I


@dataclass(frozen=True, eq=False)
class Ranking:
    """What people here rank with after a round of a run. `mark` is the last row of the histories
    that the scores know; `final` is a finished run's selected round. `state_round` is the round
    whose private state is in the scores: a later one than `round_number` where the node never heard
    that its round was the best so far."""

    run: str
    round_number: int
    final: bool
    mark: int
    state_round: int
    score_UI: np.ndarray
    linear: LinearScores | None = None

    @property
    def about(self) -> dict[str, Any]:
        """Of which run and rounds lists are, for programs."""
        return {
            "run": self.run,
            "round": self.round_number,
            "final": self.final,
            "state_round": self.state_round,
        }

    def scores(self, person: int, histories: Histories) -> np.ndarray:
        """(I,) scores of one person; what came since counts where the method allows that."""
        since_N = (histories.person_N == person) & (histories.place_N > self.mark)
        if self.linear is None or not since_N.any():
            scores_I: np.ndarray = self.score_UI[person]
            return scores_I
        own_N = np.flatnonzero(since_N)
        new_N = histories.item_N[own_N[np.argsort(histories.time_N[own_N], kind="stable")]]
        known_H = self.linear.history(person)
        new_N = new_N[~np.isin(new_N, known_H) & (new_N < len(self.linear.matrix_II))]
        _, first = np.unique(new_N, return_index=True)
        return self.linear.of(np.concatenate([known_H, new_N[np.sort(first)]]))

    def write(self, store: Store) -> None:
        values = {
            "run": self.run,
            "round_number": self.round_number,
            "final": self.final,
            "mark": self.mark,
            "state_round": self.state_round,
        }
        arrays = {SCORES: self.score_UI}
        if self.linear is not None:
            arrays |= {MATRIX: self.linear.matrix_II, AGE_WEIGHT: self.linear.weight_A}
            arrays |= {START: self.linear.start_U1, ITEM: self.linear.item_N}
        store.write(BOX_NAME, Content(values, arrays))

    @classmethod
    def read(cls, store: Store) -> Ranking | None:
        content = store.read(BOX_NAME)
        if content is None:
            return None
        arrays, linear = content.arrays, None
        if MATRIX in arrays:
            linear = LinearScores(*(arrays[name] for name in (MATRIX, AGE_WEIGHT, START, ITEM)))
        return cls(**content.values, score_UI=arrays[SCORES], linear=linear)


def best_items(
    ranking: Ranking | None, catalogue: Catalogue, histories: Histories, person: int, k: int
) -> list[Line]:
    """The best k items that a person does not have yet."""
    if k < 1:
        raise TacitError(f"k is {k}; ask for at least 1 item.")
    if ranking is None:
        raise TacitError(
            "This node has no model yet: it takes part in a run, or gets one delivered, before it "
            "can recommend."
        )
    score_I = np.array(ranking.scores(person, histories), dtype=np.float64)
    known = histories.items_of(person)
    known = known[known < len(score_I)]
    unknown_I = score_I.copy()
    unknown_I[known] = -np.inf
    best = np.argsort(-unknown_I, kind="stable")[: min(k, len(score_I) - len(known))]
    return [
        Line(place, catalogue.ids[code], catalogue.title(code), float(score_I[code]))
        for place, code in enumerate(best.tolist(), 1)
    ]
