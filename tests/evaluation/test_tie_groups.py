import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.evaluation.ranks import Ranks, tie_groups

# User 7: two items tied at above 4 (five candidates in the tie), one better at above 0, one missed.
# User 2: one item alone. Rows stand in no order.
ROWS = [
    # user, item, above, tied, candidates
    (7, 1, 4, 4, 20),
    (2, 5, 3, 0, 30),
    (7, 2, 0, 1, 20),
    (7, 3, 20, 0, 20),
    (7, 4, 4, 4, 20),
]
RANKS = Ranks(*np.array(ROWS).T, part="test", candidate_set="full")


def test_expected_groups():
    groups = tie_groups(RANKS)
    assert groups.user_E.tolist() == [2, 7]
    assert groups.relevant_E.tolist() == [1, 4]
    assert groups.user_G.tolist() == [0, 1, 1]
    assert groups.above_G.tolist() == [3, 0, 4]
    assert groups.size_G.tolist() == [1, 2, 5]
    assert groups.relevant_G.tolist() == [1, 1, 2]
    assert groups.before_G.tolist() == [0, 0, 1]
    assert groups.reached_G(6).tolist() == [1, 2, 2]
    assert groups.total_E(np.array([1.0, 2.0, 4.0])).tolist() == [1.0, 6.0]


def test_pessimistic_groups_are_single_places_at_the_end_of_their_tie():
    groups = tie_groups(RANKS, "pessimistic")
    assert groups.user_G.tolist() == [0, 1, 1, 1]
    # The tie at above 4 covers ranks 5 to 9; three others first, then the two relevant ones.
    assert groups.above_G.tolist() == [3, 1, 7, 8]
    assert groups.size_G.tolist() == [1, 1, 1, 1]
    assert groups.before_G.tolist() == [0, 0, 1, 2]


def test_unknown_tie_rule_names_the_nearest():
    with pytest.raises(TacitError, match="did you mean 'expected'"):
        tie_groups(RANKS, "expectd")


def test_nothing_to_average_is_said():
    with pytest.raises(TacitError, match="test part holds no ranks"):
        tie_groups(RANKS.where(np.zeros(5, bool)))
