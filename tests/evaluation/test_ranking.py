import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.evaluation.ranking import rank, rank_one_list, users_at_once


def counts(ranks):
    return list(zip(ranks.above_H.tolist(), ranks.tied_H.tolist(), strict=True))


def naive(score_UI, part, top):
    """Ranks by plain loops over Python sets: the definition."""
    full, sampled, lists = [], [], []
    for e, u in enumerate(part.user_E):
        score = score_UI[u]
        relevant = list(dict.fromkeys(part.relevant[e].tolist()))
        everything = set(range(part.n_items)) - set(part.masked[e].tolist())
        drawn = set(part.sampled[e].tolist()) | set(relevant)
        for item in relevant:
            for candidates, out in ((everything, full), (drawn, sampled)):
                if item not in candidates:
                    out.append((u, item, len(candidates), 0, len(candidates)))
                    continue
                above = sum(bool(score[other] > score[item]) for other in candidates)
                tied = sum(bool(score[other] == score[item]) for other in candidates - {item})
                out.append((u, item, above, tied, len(candidates)))
        best = sorted(everything, key=lambda item: (-score[item], item))[:top]
        lists.append(best + [-1] * (top - len(best)))
    return full, sampled, lists


def rows(ranks):
    columns = (ranks.user_H, ranks.item_H, ranks.above_H, ranks.tied_H, ranks.candidates_H)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_hand_computed_ranks(held_out_of):
    score_UI = np.array(
        [
            [0.9, 0.5, 0.5, 0.5, 0.1],  # held out 2: item 0 above, 1 and 3 tied
            [0.9, 0.5, 0.5, 0.5, 0.1],  # the same, but 0 and 3 are masked
            [5.0, 4.0, 3.0, 2.0, 1.0],  # held out 4 and 1
        ]
    )
    part = held_out_of(
        5,
        relevant=[[2], [2], [4, 1]],
        masked=[[], [0, 3], [0]],
        sampled=[[0, 4], [1, 4], [2]],
    )
    result = rank(lambda users: score_UI[users], part, top=2)
    assert counts(result.full) == [(1, 2), (0, 1), (3, 0), (0, 0)]
    assert result.full.candidates_H.tolist() == [5, 3, 4, 4]
    # Sampled: {2, 0, 4}; {2, 1, 4}; {4, 1, 2}, where held-out item 1 stands above 4.
    assert counts(result.sampled) == [(1, 0), (0, 1), (2, 0), (0, 0)]
    assert result.sampled.candidates_H.tolist() == [3, 3, 3, 3]
    assert result.full.user_H.tolist() == [0, 1, 2, 2]
    assert result.full.item_H.tolist() == [2, 2, 4, 1]
    assert result.top_EK.tolist() == [[0, 1], [1, 2], [1, 2]]
    assert (result.full.part, result.full.candidate_set) == ("test", "full")
    assert result.sampled.candidate_set == "sampled"


def test_masked_relevant_item_is_a_miss_in_full_and_not_in_sampled(held_out_of):
    part = held_out_of(6, relevant=[[5]], masked=[[5, 0]], sampled=[[1, 2]])
    result = rank(lambda users: np.arange(6.0)[None], part)
    assert rows(result.full) == [(0, 5, 4, 0, 4)]
    assert result.full.missed_H.tolist() == [True]
    assert rows(result.sampled) == [(0, 5, 0, 0, 3)]


@st.composite
def situations(draw):
    n_items, n_users = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    lists = st.lists(st.integers(0, n_items - 1), max_size=6)
    some = st.lists(lists, min_size=n_users, max_size=n_users)
    values = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf])
    row = st.lists(values, min_size=n_items, max_size=n_items)
    scores = draw(st.lists(row, min_size=n_users, max_size=n_users))
    users = draw(st.permutations(range(n_users)))
    return n_items, np.array(scores), draw(some), draw(some), draw(some), users


@settings(deadline=None, max_examples=150)
@given(
    situations(),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from("CF"),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_kernel_equals_plain_loops(held_out_of, situation, dtype, order, block, threads):
    n_items, score_UI, relevant, masked, sampled, users = situation
    part = held_out_of(n_items, relevant, masked, sampled, users)

    def scores(user_B):
        return score_UI[user_B].astype(dtype, order=order)

    full, drawn, lists = naive(score_UI, part, 4)
    for top in (0, 4):
        result = rank(scores, part, block=block, top=top, threads=threads)
        assert rows(result.full) == full
        assert rows(result.sampled) == drawn
        assert top == 0 or result.top_EK.tolist() == lists


def test_kernel_equals_plain_loops_at_size(held_out_of):
    generator = np.random.default_rng(3)
    score_UI = np.round(generator.normal(size=(40, 300)), 2)  # rounded, so ties are common
    lists = [
        [generator.integers(0, 300, size=size).tolist() for _ in range(40)] for size in (3, 50, 99)
    ]
    part = held_out_of(300, *lists)
    result = rank(lambda user_B: score_UI[user_B], part, block=7, top=20)
    full, drawn, top = naive(score_UI, part, 20)
    assert rows(result.full) == full
    assert rows(result.sampled) == drawn
    assert result.top_EK.tolist() == top
    assert result.full.tied_H.sum() > 0


@settings(deadline=None, max_examples=50)
@given(situations())
def test_rising_transforms_and_blocks_change_nothing(held_out_of, situation):
    n_items, score_UI, relevant, masked, sampled, users = situation
    part = held_out_of(n_items, relevant, masked, sampled, users)
    one = rank(lambda user_B: score_UI[user_B], part, top=3)
    two = rank(lambda user_B: np.arctan(3.0 * score_UI[user_B]) - 7.0, part, block=1, top=3)
    assert rows(one.full) == rows(two.full)
    assert rows(one.sampled) == rows(two.sampled)
    assert one.top_EK.tolist() == two.top_EK.tolist()


@pytest.mark.parametrize("size", [1, 3, 6])  # few held-out items per user, and many
def test_scores_that_lie_item_after_item_give_the_same_counts(held_out_of, size):
    generator = np.random.default_rng(size)
    score_UI = np.round(generator.normal(size=(150, 200)), 1).astype(np.float32)
    lists = [[generator.integers(0, 200, n).tolist() for _ in range(150)] for n in (size, 9, 30)]
    part = held_out_of(200, *lists)
    one = rank(lambda u: score_UI[u], part, top=7)
    two = rank(lambda u: np.asfortranarray(score_UI[u]), part, block=64, top=7, threads=2)
    full, drawn, lists = naive(score_UI, part, 7)
    for found in (one, two):
        assert rows(found.full) == full
        assert rows(found.sampled) == drawn
        assert found.top_EK.tolist() == lists


@pytest.mark.parametrize("direction", [1.0, -1.0])  # every item better than the last, or worse
@pytest.mark.parametrize("order", "CF")
def test_top_lists_of_sorted_catalogues(held_out_of, direction, order):
    score_I = direction * np.repeat(np.arange(500.0), 3)  # three items tie, everywhere
    score_UI = np.array([score_I, score_I[::-1]], order=order)
    part = held_out_of(1500, [[7], [8]], masked=[[0, 1499, 750], [3]])
    for top in (1, 2, 10, 100, 1500):
        lists = naive(score_UI, part, top)[2]
        assert rank(lambda user_B: score_UI, part, top=top).top_EK.tolist() == lists


@settings(deadline=None, max_examples=50)
@given(situations())
def test_one_list_for_everybody_needs_no_block_of_scores(held_out_of, situation):
    n_items, score_UI, relevant, masked, sampled, users = situation
    part = held_out_of(n_items, relevant, masked, sampled, users)
    if n_items > 2:
        part = replace(part, among_C=np.arange(1, n_items))
    expected = rank(lambda user_B: np.tile(score_UI[0], (len(user_B), 1)), part)
    found = rank_one_list(score_UI[0], part)
    assert rows(found.full) == rows(expected.full)
    assert rows(found.sampled) == rows(expected.sampled)


def test_one_list_of_nan_is_refused(held_out_of):
    with pytest.raises(TacitError, match="everybody is given are not numbers"):
        rank_one_list(np.array([1.0, np.nan]), held_out_of(2, [[0]]))


def test_blocks_are_bounded_by_what_their_scores_take():
    assert [users_at_once(n) for n in (1, 3_706, 16_980)] == [256, 256, 256]  # as it ever was
    for n_items in (20_000, 50_000, 77_000, 10**6, 10**8):
        rows_at_once = users_at_once(n_items)
        assert rows_at_once * n_items <= 5_000_000 or rows_at_once == 1
        assert rows_at_once % 64 == 0 or rows_at_once < 64


def test_threads_work_side_by_side_and_change_nothing(held_out_of):
    """Two blocks meet inside the scorer: were they ranked one after another, nobody would come."""
    generator = np.random.default_rng(1)
    score_UI = np.round(generator.normal(size=(50, 30)), 1)
    part = held_out_of(30, generator.integers(0, 30, (50, 2)).tolist())
    meeting, alone = threading.Barrier(2, timeout=20), threading.Event()

    def scores(user_B):
        if not alone.is_set():
            alone.set()  # the first block is ranked alone
        else:
            meeting.wait()
        return score_UI[user_B]

    two = rank(scores, part, block=10, top=5, threads=2)
    one = rank(lambda user_B: score_UI[user_B], part, top=5)
    assert rows(one.full) == rows(two.full)
    assert one.top_EK.tolist() == two.top_EK.tolist()


def test_the_first_user_with_nan_is_named_for_any_number_of_threads(held_out_of):
    score_UI = np.zeros((400, 5))
    score_UI[[60, 61, 399], 2] = np.nan
    part = held_out_of(5, [[0]] * 400)
    for scores in (lambda u: score_UI[u], lambda u: np.asfortranarray(score_UI[u])):
        for threads in (1, 4):
            with pytest.raises(TacitError, match="user with code 60 "):
                rank(scores, part, block=7, threads=threads)


def test_blocks_ask_for_each_user_once(held_out_of):
    asked = []

    def scores(user_B):
        asked.append(user_B.tolist())
        return np.zeros((len(user_B), 3))

    rank(scores, held_out_of(3, [[0]] * 5, users=[9, 4, 7, 1, 2]), block=2)
    assert asked == [[9, 4], [7, 1], [2]]


def test_nan_names_the_user_and_the_remedy(held_out_of):
    score_UI = np.zeros((30, 4), np.float32)
    score_UI[21, 3] = np.nan
    part = held_out_of(4, [[0]] * 3, users=[5, 21, 6])
    with pytest.raises(TacitError, match=r"user with code 21 .*NaN.*`local\.items\.rate`"):
        rank(lambda user_B: score_UI[user_B], part)


def test_scores_of_wrong_shape_are_refused(held_out_of):
    with pytest.raises(TacitError, match=r"shape \(1, 3\) where \(1, 4\) is needed"):
        rank(lambda user_B: np.zeros((1, 3)), held_out_of(4, [[0]]))


def test_whole_number_scores_and_views_are_fine(held_out_of):
    score_IU = np.array([[3, 0], [1, 2], [2, 2]])
    result = rank(lambda user_B: score_IU.T[user_B], held_out_of(3, [[2], [2]]))
    assert counts(result.full) == [(1, 0), (0, 1)]


def test_nobody_to_evaluate_gives_no_ranks(held_out_of):
    result = rank(lambda user_B: np.zeros((len(user_B), 3)), held_out_of(3, []))
    assert len(result.full) == len(result.sampled) == 0
    assert result.top_EK is None


def test_user_without_held_out_items_has_no_rows(held_out_of):
    result = rank(lambda user_B: np.zeros((len(user_B), 3)), held_out_of(3, [[], [1]]))
    assert rows(result.full) == [(1, 1, 0, 2, 3)]
