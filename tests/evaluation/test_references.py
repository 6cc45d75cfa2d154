from types import SimpleNamespace

import numpy as np
import pytest

from tacit.data.views import Lists, TrainView
from tacit.evaluation.metrics import METRICS, metric, per_user
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance, never_sampled, popularity


@pytest.fixture
def part(held_out_of):
    return held_out_of(
        40,
        relevant=[[1], [2, 3, 4], [5], [6, 6]],
        masked=[[0, 0, 9], [7], [5, 8], []],
        sampled=[[10, 11, 12], [13, 14], [15, 15], [16, 6]],
        users=[4, 0, 2, 7],
    )


@pytest.mark.parametrize("candidate_set", ["full", "sampled"])
def test_constant_scorer_is_exactly_chance(part, candidate_set):
    constant = getattr(rank(lambda user_B: np.full((len(user_B), 40), 3.5), part), candidate_set)
    analytic = getattr(chance(part), candidate_set)
    for name in ("user_H", "item_H", "above_H", "tied_H", "candidates_H"):
        assert getattr(constant, name).tolist() == getattr(analytic, name).tolist()
    assert (analytic.part, analytic.candidate_set) == ("test", candidate_set)
    for name in METRICS:
        assert metric(constant, f"{name}@10") == metric(analytic, f"{name}@10")


def test_chance_is_the_share_of_candidates_within_the_cutoff(held_out_of):
    part = held_out_of(500, [[3], [4]], [[], list(range(5, 55))], [list(range(100, 199))] * 2)
    result = chance(part)
    assert per_user(result.full, "HR@10")[1].tolist() == [10 / 500, 10 / 450]
    assert metric(result.sampled, "HR@10") == 0.1
    assert metric(result.full, "HR@10", ties="pessimistic") == 0.0


def test_chance_is_what_random_scores_give_on_average(held_out_of):
    generator = np.random.default_rng(5)
    part = held_out_of(30, [[3, 4], [5]] * 200)
    score_UI = generator.normal(size=(400, 30))
    ranks = rank(lambda user_B: score_UI[user_B], part).full
    for name in METRICS:
        value_E = per_user(ranks, f"{name}@5")[1]
        error = value_E.std() / np.sqrt(len(value_E))
        assert abs(value_E.mean() - metric(chance(part).full, f"{name}@5")) < 4 * error


def test_popularity_counts_train_items(held_out_of):
    lists = Lists(np.array([0, 2, 4]), np.array([0, 2, 2, 3]))
    train = TrainView(4, lists, np.zeros(2, np.uint64), Lists.empty(2))
    part = held_out_of(4, [[0], [3], [1, 2]], masked=[[2], [], [0, 0]])
    ranks = popularity(train, part).full  # counts are 1, 0, 2 and 1
    assert ranks.above_H.tolist() == [0, 1, 2, 0]
    assert ranks.tied_H.tolist() == [1, 1, 0, 0]


def test_never_sampled_items_stand_first(held_out_of):
    drawn_UI = np.array([[0, 1, 1, 1], [2, 0, 0, 5]], np.uint16)
    part = held_out_of(4, [[0], [1]])
    drawn = SimpleNamespace(rounds_BI=lambda user_B: drawn_UI[user_B])
    ranks = never_sampled(drawn, part).full
    assert ranks.above_H.tolist() == [0, 0]
    assert ranks.tied_H.tolist() == [0, 1]
