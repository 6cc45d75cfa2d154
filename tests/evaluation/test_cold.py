"""Candidates, averaged cut-offs and the wrong NDCG, from numbers that a hand can compute."""

import numpy as np
import pytest

from tacit.data.views import HeldOut, Lists
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric, parse_metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance, mean_scores, ndcg_index_order, top_shares


def part(relevant: list[list[int]], among: list[int], n_items: int = 6) -> HeldOut:
    starts = np.cumsum([0, *map(len, relevant)])
    lists = Lists(starts, np.concatenate(relevant).astype(np.int64))
    nothing = Lists.empty(len(relevant))
    users = np.arange(len(relevant))
    return HeldOut("test", n_items, users, lists, nothing, nothing, np.array(among))


def test_items_outside_are_no_candidates():
    held_out = part([[4]], among=[3, 4, 5])
    scores = np.array([[9.0, 9.0, 9.0, 0.5, 0.4, 0.4]])
    ranks = rank(lambda users: scores[users], held_out, top=5)
    assert ranks.full.above_H.tolist() == [1]
    assert ranks.full.tied_H.tolist() == [1]
    assert ranks.full.candidates_H.tolist() == [3]
    assert ranks.top_EK.tolist() == [[3, 4, 5, -1, -1]]
    assert metric(chance(held_out).full, "Recall@1") == pytest.approx(1 / 3)


def test_ndcg_in_index_order_is_not_ndcg():
    # the list by rank is 5, 1, 4; user's items 5 and 4. By rank the gains are 1 and 1/2, by code
    # (1, 4, 5) they are 1/log2(3) and 1/2; the best list has 1 + 1/log2(3).
    held_out = part([[4, 5]], among=[1, 4, 5])
    scores = np.array([[0.0, 2.0, 0.0, 0.0, 1.0, 3.0]])
    found = rank(lambda users: scores[users], held_out, top=3)
    second = 1 / np.log2(3)
    assert metric(found.full, "NDCG@3") == pytest.approx((1 + 0.5) / (1 + second))
    wrong = ndcg_index_order(found.top_EK, held_out, 3)
    assert wrong == pytest.approx((second + 0.5) / (1 + second))


def test_a_metric_may_be_the_mean_over_cutoffs():
    held_out = part([[4]], among=[3, 4, 5])
    scores = np.array([[0.0, 0.0, 0.0, 0.5, 0.4, 0.3]])
    ranks = rank(lambda users: scores[users], held_out).full
    assert metric(ranks, "Recall@1+2+3") == pytest.approx(2 / 3)
    assert parse_metric("Recall@20+50+100")[1] == 100
    with pytest.raises(TacitError, match="whole cut-off"):
        parse_metric("Recall@20+")


def test_shares_of_the_most_touched_items():
    held_out = part([[4], [4], [4, 5]], among=[3, 4, 5])
    assert top_shares(held_out, (1, 2)) == {"top1": 0.75, "top2": 1.0}


def test_the_same_list_for_all_knows_nobody():
    scores = np.array([[0.0, 1.0], [2.0, 0.0], [4.0, 0.5]])
    mean_I = mean_scores(lambda users: scores[users], np.array([0, 1, 2]), block=2)
    np.testing.assert_allclose(mean_I, [2.0, 0.5])
