"""From scores to ranks: one pass over the scores gives the full and the sampled ranking.

Users are scored and counted block by block, on as many threads as are asked for: what lies in
memory is a block per thread, never all users by all items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.data.views import HeldOut
from tacit.errors import TacitError
from tacit.evaluation.ranks import Candidates, Ranks

# User codes (B,) -> scores (B, I) over the whole catalogue. Give logits: in float32 a sigmoid
# saturates and makes ties that the model does not have.
ScoreBlock = Callable[[np.ndarray], np.ndarray]

BLOCK_SCORES = 5_000_000  # of a block of users: 20 MB of float32 for each thread
FEW_HELD_OUT = 4  # up to so many per user, scores that lie item after item are counted as they lie
_STRETCH = 64  # items that a top list skips together


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


def users_at_once(n_items: int) -> int:
    """How many users are scored together: 256, and fewer where their scores would fill the caches.

    A block is a multiple of 64, the block that scorers have inside. The last bit of a product of
    matrices may depend on their shapes, so catalogues that fit keep to 256.

    >>> users_at_once(1_682), users_at_once(50_000), users_at_once(1_000_000)
    (256, 64, 5)
    """
    fitting = BLOCK_SCORES // max(n_items, 1)
    if fitting >= 64:
        return min(256, fitting // 64 * 64)
    return max(1, fitting)


def rank(
    scores: ScoreBlock,
    held_out: HeldOut,
    *,
    block: int | None = None,
    top: int = 0,
    threads: int = 1,
) -> Evaluation:
    """Rank every held-out item among all unmasked items, and among the sampled candidates.

    `scores` is called from several threads at a time where there are several; the ranks are the
    same for any number of them.

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
    relevant, masked, sampled = candidates.relevant, candidates.masked, candidates.sampled
    count = len(relevant.item_N)
    above_2H, tied_2H = np.zeros((2, count), np.int64), np.zeros((2, count), np.int64)
    top_EK = np.full((len(held_out.user_E), top), -1, np.int64)
    outside_I = _outside(held_out)
    restricted = bool(outside_I.any())
    rows = users_at_once(held_out.n_items) if block is None else block

    def rank_block(first: int) -> int:
        """Rank some users; the code of the first whose scores are no numbers, or -1."""
        user_B = held_out.user_E[first : first + rows]
        score_BI = _checked(scores(user_B), (len(user_B), held_out.n_items))
        if restricted:
            score_BI = np.where(outside_I, score_BI.dtype.type(-np.inf), score_BI)
        most = int(np.diff(relevant.start_U1[first : first + len(user_B) + 1]).max())
        by_items = score_BI.flags.f_contiguous and not score_BI.flags.c_contiguous
        if not by_items or most > FEW_HELD_OUT:
            score_BI, by_items = np.ascontiguousarray(score_BI), False
        lists = (first, relevant.start_U1, relevant.item_N)
        counts = (above_2H[0], tied_2H[0])
        if by_items:
            diverged = _count_by_items(score_BI.T, max(most, 1), *lists, *counts)
        else:
            diverged = _count_by_users(score_BI, *lists, *counts)
        if diverged >= 0:
            return int(user_B[diverged])
        others = (masked.start_U1, masked.item_N, sampled.start_U1, sampled.item_N)
        _count_lists(score_BI, *lists, *others, above_2H, tied_2H)
        if top > 0:
            barred = (outside_I, masked.start_U1, masked.item_N)
            if by_items:
                _best_by_items(score_BI.T, first, *barred, top_EK)
            else:
                _best_by_users(score_BI, first, *barred, top_EK)
        return -1

    for diverged in _in_order(rank_block, range(0, len(held_out.user_E), rows), threads):
        if diverged >= 0:
            raise _diverged(f"Scores of the user with code {diverged}")
    return Evaluation.of_counts(
        held_out, candidates, above_2H, tied_2H, top_EK if top > 0 else None
    )


def rank_one_list(score_I: np.ndarray, held_out: HeldOut) -> Evaluation:
    """The ranks where everybody is given the same scores, without a block of them: where an item
    stands follows from one sorted list.

    >>> from tacit.data.views import Lists
    >>> one, mask = Lists(np.array([0, 1]), np.array([2])), Lists(np.array([0, 1]), np.array([3]))
    >>> part = HeldOut("test", 4, np.array([0]), one, mask, Lists.empty(1))
    >>> full = rank_one_list(np.array([5.0, 7.0, 5.0, 9.0]), part).full
    >>> full.above_H.tolist(), full.tied_H.tolist()
    ([1], [1])
    """
    candidates = Candidates.of(held_out)
    relevant, masked, sampled = candidates.relevant, candidates.masked, candidates.sampled
    score_1I = _checked(np.asarray(score_I)[None], (1, held_out.n_items))
    score_1I = np.where(_outside(held_out), score_1I.dtype.type(-np.inf), score_1I)
    if np.isnan(score_1I).any():
        raise _diverged("Scores that everybody is given")
    sorted_I, own_H = np.sort(score_1I[0]), score_1I[0][relevant.item_N]
    not_above_H = np.searchsorted(sorted_I, own_H, "right")
    above_2H, tied_2H = np.zeros((2, len(own_H)), np.int64), np.zeros((2, len(own_H)), np.int64)
    above_2H[0] = held_out.n_items - not_above_H
    tied_2H[0] = not_above_H - np.searchsorted(sorted_I, own_H, "left") - 1
    score_EI = np.broadcast_to(score_1I, (len(held_out.user_E), held_out.n_items))  # one row
    lists = (0, relevant.start_U1, relevant.item_N, masked.start_U1, masked.item_N)
    _count_lists(score_EI, *lists, sampled.start_U1, sampled.item_N, above_2H, tied_2H)
    return Evaluation.of_counts(held_out, candidates, above_2H, tied_2H)


def _in_order(work: Callable[[int], int], firsts: range, threads: int) -> Iterator[int]:
    """work(first) of each block, in their order; the first block alone, since kernels compile."""
    for first in firsts[:1]:
        yield work(first)
    if threads == 1 or len(firsts) < 3:
        yield from map(work, firsts[1:])
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(work, firsts[1:])
    finally:
        pool.shutdown(cancel_futures=True)


def _diverged(what: str) -> DivergedError:
    return DivergedError(
        f"{what} are not numbers (NaN), so training diverged; lower the learning rate "
        "(`local.items.rate` or its scale, or `optimiser.rate`)."
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
    return score_BI if score_BI.dtype in (np.float32, np.float64) else score_BI.astype(np.float64)


# Both counts over the whole catalogue are plain loops over what lies side by side, with counters
# as wide as a float32: that is what the compiler turns into vector code.
@compiled(nogil=True)
def _count_by_users(
    score_BI: np.ndarray,
    first: int,
    relevant_start: np.ndarray,
    relevant_item: np.ndarray,
    above_H: np.ndarray,
    tied_H: np.ndarray,
) -> int:
    """How many items are above and tied, of rows that lie one user after another; returns the
    first row with a NaN, or -1. The item itself is among the tied, hence -1."""
    for b in range(len(score_BI)):
        score_I = score_BI[b]
        bad = np.int32(0)
        for i in range(len(score_I)):
            bad += np.int32(score_I[i] != score_I[i])
        if bad > 0:
            return b
        for h in range(relevant_start[first + b], relevant_start[first + b + 1]):
            own = score_I[relevant_item[h]]
            above, tied = np.int32(0), np.int32(-1)
            for i in range(len(score_I)):
                above += np.int32(score_I[i] > own)
                tied += np.int32(score_I[i] == own)
            above_H[h], tied_H[h] = above, tied
    return -1


@compiled(nogil=True)
def _count_by_items(
    score_IB: np.ndarray,
    most: int,
    first: int,
    relevant_start: np.ndarray,
    relevant_item: np.ndarray,
    above_H: np.ndarray,
    tied_H: np.ndarray,
) -> int:
    """The same counts of scores that lie one item after another, as products of matrices give
    them; once over for each of the `most` held-out items that a user has."""
    width = score_IB.shape[1]
    own_B = np.zeros(width, score_IB.dtype)
    above_B, tied_B = np.zeros(width, np.int32), np.zeros(width, np.int32)
    bad_B = np.zeros(width, np.int32)
    for number in range(most):
        for b in range(width):
            h = relevant_start[first + b] + number
            if h < relevant_start[first + b + 1]:
                own_B[b] = score_IB[relevant_item[h], b]
            above_B[b], tied_B[b], bad_B[b] = 0, -1, 0
        for i in range(len(score_IB)):
            score_B = score_IB[i]
            for b in range(width):
                above_B[b] += np.int32(score_B[b] > own_B[b])
                tied_B[b] += np.int32(score_B[b] == own_B[b])
                bad_B[b] += np.int32(score_B[b] != score_B[b])
        for b in range(width):
            if bad_B[b] > 0:
                return b
            h = relevant_start[first + b] + number
            if h < relevant_start[first + b + 1]:
                above_H[h], tied_H[h] = above_B[b], tied_B[b]
    return -1


@compiled(nogil=True)
def _count_lists(
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
) -> None:
    """Take the masked items back out of the full counts, and count the sampled candidates."""
    for b in range(len(score_BI)):
        u = first + b
        for h in range(relevant_start[u], relevant_start[u + 1]):
            own = score_BI[b, relevant_item[h]]
            for n in range(masked_start[u], masked_start[u + 1]):
                score = score_BI[b, masked_item[n]]
                above_2H[0, h] -= score > own
                tied_2H[0, h] -= score == own
            above, tied = 0, -1
            for n in range(sampled_start[u], sampled_start[u + 1]):
                above += score_BI[b, sampled_item[n]] > own
                tied += score_BI[b, sampled_item[n]] == own
            for n in range(relevant_start[u], relevant_start[u + 1]):
                above += score_BI[b, relevant_item[n]] > own
                tied += score_BI[b, relevant_item[n]] == own
            above_2H[1, h], tied_2H[1, h] = above, tied


# A top list is a heap with its worst item on top, so that a better one takes log K steps. What has
# none better than the worst, a stretch of the catalogue or an item for all users, is passed whole.
@compiled(nogil=True)
def _best_by_users(
    score_BI: np.ndarray,
    first: int,
    outside_I: np.ndarray,
    masked_start: np.ndarray,
    masked_item: np.ndarray,
    top_EK: np.ndarray,
) -> None:
    """Fill the top lists of one block, of rows that lie one user after another."""
    n_items, width = score_BI.shape[1], top_EK.shape[1]
    barred_I = outside_I.copy()
    for b in range(len(score_BI)):
        score_I, heap_K, u = score_BI[b], top_EK[first + b], first + b
        filled = np.int64(0)  # of a bare 0 numba would compile all callees twice
        for n in range(masked_start[u], masked_start[u + 1]):
            barred_I[masked_item[n]] = True
        for begin in range(0, n_items, _STRETCH):
            stretch = score_I[begin : begin + _STRETCH]
            if filled == width:
                worst, better = score_I[heap_K[0]], np.int32(0)
                for score in stretch:
                    better += np.int32(score > worst)
                if better == 0:
                    continue
            for i in range(begin, begin + len(stretch)):
                if barred_I[i] or (filled == width and score_I[i] <= score_I[heap_K[0]]):
                    continue
                filled = _offer(score_I, heap_K, filled, i)
        _sort(score_I, heap_K, filled)
        for n in range(masked_start[u], masked_start[u + 1]):
            barred_I[masked_item[n]] = False


@compiled(nogil=True)
def _best_by_items(
    score_IB: np.ndarray,
    first: int,
    outside_I: np.ndarray,
    masked_start: np.ndarray,
    masked_item: np.ndarray,
    top_EK: np.ndarray,
) -> None:
    """The same lists of scores that lie one item after another."""
    users, width = score_IB.shape[1], top_EK.shape[1]
    barred_IB = np.zeros(score_IB.shape, np.uint8)
    for b in range(users):
        for n in range(masked_start[first + b], masked_start[first + b + 1]):
            barred_IB[masked_item[n], b] = 1
    worst_B, filled_B = np.full(users, -np.inf, score_IB.dtype), np.zeros(users, np.int64)
    lists_full = 0
    for i in range(len(score_IB)):
        score_B, better = score_IB[i], np.int32(0)
        for b in range(users):
            better += np.int32(score_B[b] > worst_B[b])
        if outside_I[i] or (better == 0 and lists_full == users):
            continue
        for b in range(users):
            is_full = filled_B[b] == width
            if barred_IB[i, b] or (is_full and score_B[b] <= worst_B[b]):
                continue
            heap_K = top_EK[first + b]
            filled_B[b] = _offer(score_IB[:, b], heap_K, filled_B[b], i)
            if filled_B[b] == width:
                lists_full += not is_full
                worst_B[b] = score_IB[heap_K[0], b]
    for b in range(users):
        _sort(score_IB[:, b], top_EK[first + b], filled_B[b])


@compiled(nogil=True)
def _offer(score_I: np.ndarray, heap_K: np.ndarray, filled: int, item: int) -> int:
    """Put an item into a list of `filled` ones if it belongs there; how many there are then. Items
    come by rising code, so one that ties with the worst stays out."""
    if filled < len(heap_K):
        heap_K[filled] = item
        filled += 1
        if filled == len(heap_K):
            _heap(score_I, heap_K, filled)
    elif score_I[item] > score_I[heap_K[0]]:
        heap_K[0] = item
        _sink(score_I, heap_K, np.int64(0), filled)
    return filled


@compiled(nogil=True)
def _heap(score_I: np.ndarray, heap_K: np.ndarray, size: int) -> None:
    for place in range(size // 2, -1, -1):
        _sink(score_I, heap_K, place, size)


@compiled(nogil=True)
def _sort(score_I: np.ndarray, heap_K: np.ndarray, size: int) -> None:
    """Best first: the worst goes to the end, again and again."""
    if size < len(heap_K):
        _heap(score_I, heap_K, size)
    for last in range(size - 1, 0, -1):
        heap_K[0], heap_K[last] = heap_K[last], heap_K[0]
        _sink(score_I, heap_K, np.int64(0), last)


@compiled(nogil=True)
def _sink(score_I: np.ndarray, heap_K: np.ndarray, place: int, size: int) -> None:
    """Move an item down a heap whose top is the worst: the lowest score, then the highest code."""
    while True:
        worst = place
        for child in (2 * place + 1, 2 * place + 2):
            if child < size:
                score, other = score_I[heap_K[child]], score_I[heap_K[worst]]
                if score < other or (score == other and heap_K[child] > heap_K[worst]):
                    worst = child
        if worst == place:
            return
        heap_K[place], heap_K[worst] = heap_K[worst], heap_K[place]
        place = worst
