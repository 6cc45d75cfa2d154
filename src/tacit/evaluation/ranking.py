"""From scores to ranks: one pass over the scores gives the full and the sampled ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.data.views import HeldOut
from tacit.errors import TacitError
from tacit.evaluation.candidates import Candidates
from tacit.evaluation.ranks import Ranks

# User codes (B,) -> scores (B, I) over the whole catalogue. Give logits: in float32 a sigmoid
# saturates and makes ties that the model does not have.
ScoreBlock = Callable[[np.ndarray], np.ndarray]


class DivergedError(TacitError):
    """Scores are not numbers: the settings are to blame, and a sweep goes on with the next ones."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Both rankings of one held-out part, and the top lists where they were asked for.

    `top_EK` holds item codes, best first, one row per evaluated user; equal scores stand in the
    order of item codes, and -1 fills a list that runs out of candidates.

    >>> one = Ranks(*np.array([[0], [1], [2], [0], [10]]), "test", "full")
    >>> Evaluation(full=one, sampled=one).top_EK is None
    True
    """

    full: Ranks
    sampled: Ranks
    top_EK: np.ndarray | None = None

    @classmethod
    def of_counts(
        cls,
        held_out: HeldOut,
        candidates: Candidates,
        above_2H: np.ndarray,
        tied_2H: np.ndarray,
        top_EK: np.ndarray | None = None,
    ) -> Evaluation:
        """Counts of the full (row 0) and the sampled (row 1) ranking, with misses marked."""
        list_H, missed_H = candidates.list_H, candidates.missed_H
        user_H, item_H = held_out.user_E[list_H], candidates.relevant.item_N
        full_H, sampled_H = candidates.full_E[list_H], candidates.sampled_E[list_H]
        above_H, tied_H = np.where(missed_H, full_H, above_2H[0]), np.where(missed_H, 0, tied_2H[0])
        return cls(
            Ranks(user_H, item_H, above_H, tied_H, full_H, held_out.part, "full"),
            Ranks(user_H, item_H, above_2H[1], tied_2H[1], sampled_H, held_out.part, "sampled"),
            top_EK,
        )


def rank(scores: ScoreBlock, held_out: HeldOut, *, block: int = 256, top: int = 0) -> Evaluation:
    """Rank every held-out item among all unmasked items, and among the sampled candidates.

    >>> from tacit.data.views import Lists
    >>> def one_each(*codes):
    ...     return Lists(np.arange(len(codes) + 1), np.array(codes))
    >>> part = HeldOut("test", 4, np.array([0, 1]), one_each(2, 0), one_each(3, 1), one_each(0, 2))
    >>> logits_UI = np.array([[0.5, 0.1, 0.5, 9.0], [0.3, 0.2, 0.1, 0.4]])
    >>> result = rank(lambda users: logits_UI[users], part, top=2)
    >>> result.full.above_H.tolist(), result.full.tied_H.tolist()
    ([0, 1], [1, 0])
    >>> result.sampled.above_H.tolist(), result.top_EK.tolist()
    ([0, 0], [[0, 2], [3, 0]])
    """
    candidates = Candidates.of(held_out)
    count = len(candidates.relevant.item_N)
    above_2H, tied_2H = np.zeros((2, count), np.int64), np.zeros((2, count), np.int64)
    top_EK = np.full((len(held_out.user_E), top), -1, np.int64)
    relevant, masked, sampled = candidates.relevant, candidates.masked, candidates.sampled
    outside_I = _outside(held_out)
    restricted = bool(outside_I.any())
    for first in range(0, len(held_out.user_E), block):
        user_B = held_out.user_E[first : first + block]
        score_BI = _checked(scores(user_B), (len(user_B), held_out.n_items))
        if restricted:
            score_BI = np.where(outside_I, score_BI.dtype.type(-np.inf), score_BI)
        diverged = _count(
            score_BI,
            first,
            relevant.start_U1,
            relevant.item_N,
            masked.start_U1,
            masked.item_N,
            sampled.start_U1,
            sampled.item_N,
            above_2H,
            tied_2H,
        )
        if diverged >= 0:
            raise DivergedError(
                f"Scores of the user with code {user_B[diverged]} are not numbers (NaN), so "
                "training diverged; lower the learning rate (`local.items.rate` or its scale, or "
                "`optimiser.rate`)."
            )
        if top > 0:
            _best(score_BI, first, outside_I, masked.start_U1, masked.item_N, top_EK)
    return Evaluation.of_counts(
        held_out, candidates, above_2H, tied_2H, top_EK if top > 0 else None
    )


def _outside(held_out: HeldOut) -> np.ndarray:
    """True where an item is no candidate for anybody."""
    outside_I = np.zeros(held_out.n_items, bool)
    if held_out.among_C is not None:
        outside_I[:] = True
        outside_I[held_out.among_C] = False
    return outside_I


def _checked(score_BI: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    score_BI = np.asarray(score_BI)
    if score_BI.shape != shape:
        raise TacitError(
            f"Scores have shape {score_BI.shape} where {shape} is needed; "
            "a scorer returns one row per user and one column per item of the catalogue."
        )
    kept = score_BI.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(score_BI, dtype=score_BI.dtype if kept else np.float64)


@compiled()
def _count(
    score_BI: np.ndarray,
    first: int,
    relevant_start: np.ndarray,
    relevant_item: np.ndarray,
    masked_start: np.ndarray,
    masked_item: np.ndarray,
    sampled_start: np.ndarray,
    sampled_item: np.ndarray,
    above_2H: np.ndarray,
    tied_2H: np.ndarray,
) -> int:
    """Fill the counts of one block; returns the block's first row with a NaN, or -1."""
    for b in range(len(score_BI)):
        score_I = score_BI[b]
        bad = 0
        for i in range(len(score_I)):
            bad += score_I[i] != score_I[i]
        if bad > 0:
            return b
        u = first + b
        for h in range(relevant_start[u], relevant_start[u + 1]):
            own = score_I[relevant_item[h]]
            # All items in one plain loop, which the compiler vectorises; then the masked ones back
            # out. The item itself is among the tied, hence -1.
            above, tied = 0, -1
            for i in range(len(score_I)):
                above += score_I[i] > own
                tied += score_I[i] == own
            for n in range(masked_start[u], masked_start[u + 1]):
                above -= score_I[masked_item[n]] > own
                tied -= score_I[masked_item[n]] == own
            above_2H[0, h], tied_2H[0, h] = above, tied
            above, tied = 0, -1
            for n in range(sampled_start[u], sampled_start[u + 1]):
                above += score_I[sampled_item[n]] > own
                tied += score_I[sampled_item[n]] == own
            for n in range(relevant_start[u], relevant_start[u + 1]):
                above += score_I[relevant_item[n]] > own
                tied += score_I[relevant_item[n]] == own
            above_2H[1, h], tied_2H[1, h] = above, tied
    return -1


@compiled()
def _best(
    score_BI: np.ndarray,
    first: int,
    outside_I: np.ndarray,
    masked_start: np.ndarray,
    masked_item: np.ndarray,
    top_EK: np.ndarray,
) -> None:
    """Fill the top lists of one block by insertion; items come by rising code, so ties keep it."""
    n_items, width = score_BI.shape[1], top_EK.shape[1]
    barred_I = outside_I.copy()
    for b in range(len(score_BI)):
        score_I, top_K, u, filled = score_BI[b], top_EK[first + b], first + b, 0
        for n in range(masked_start[u], masked_start[u + 1]):
            barred_I[masked_item[n]] = True
        for i in range(n_items):
            if barred_I[i] or (filled == width and score_I[i] <= score_I[top_K[width - 1]]):
                continue
            place = filled if filled < width else width - 1
            while place > 0 and score_I[i] > score_I[top_K[place - 1]]:
                top_K[place] = top_K[place - 1]
                place -= 1
            top_K[place] = i
            filled = min(filled + 1, width)
        for n in range(masked_start[u], masked_start[u + 1]):
            barred_I[masked_item[n]] = False
