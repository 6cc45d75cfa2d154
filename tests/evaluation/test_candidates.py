import numpy as np
import pytest

from tacit.data.views import HeldOut, Lists
from tacit.errors import TacitError
from tacit.evaluation.ranks import Candidates


def test_repeats_count_once(held_out_of):
    part = held_out_of(
        10,
        relevant=[[3, 3, 4], [7]],
        masked=[[1, 2, 1, 1], [1, 7]],
        sampled=[[5, 3, 5, 6], [0]],
    )
    candidates = Candidates.of(part)
    assert [candidates.relevant[u].tolist() for u in (0, 1)] == [[3, 4], [7]]
    assert [candidates.masked[u].tolist() for u in (0, 1)] == [[1, 2], [1, 7]]
    assert [candidates.sampled[u].tolist() for u in (0, 1)] == [[5, 6], [0]]
    assert candidates.missed_H.tolist() == [False, False, True]
    assert candidates.full_E.tolist() == [8, 8]
    assert candidates.sampled_E.tolist() == [4, 2]
    assert candidates.list_H.tolist() == [0, 0, 1]


def test_lists_are_left_as_given(held_out_of):
    part = held_out_of(10, relevant=[[3, 3]], masked=[[1, 1]])
    Candidates.of(part)
    assert part.relevant[0].tolist() == [3, 3]
    assert part.masked[0].tolist() == [1, 1]


def test_codes_outside_the_catalogue_are_refused(held_out_of):
    with pytest.raises(TacitError, match="masked item of the test part has a code outside 0 to 4"):
        Candidates.of(held_out_of(5, relevant=[[3]], masked=[[5]]))
    with pytest.raises(TacitError, match="relevant item"):
        Candidates.of(held_out_of(5, relevant=[[-1]]))


def test_one_list_per_user_is_needed():
    one, none = Lists(np.array([0, 1]), np.array([0])), Lists.empty(2)
    with pytest.raises(TacitError, match="has 2 users but 1 lists of relevant items"):
        Candidates.of(HeldOut("test", 5, np.array([0, 1]), one, none, none))
