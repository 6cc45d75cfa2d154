import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.evaluation import significance
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.significance import Spread, holm, paired_bootstrap, per_user_over_seeds


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and never falling: .02 .03 .06 .06
    given = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    adjusted = holm(given)
    assert list(adjusted) == ["a", "b", "c", "d"]
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})


def test_holm_stays_within_one():
    assert holm({"a": 0.9, "b": 0.8, "c": 1.0}) == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert holm({"a": 0.2}) == {"a": 0.2}
    assert holm({}) == {}
    with pytest.raises(TacitError, match="p-value of 'a' is nan"):
        holm({"a": float("nan")})


def test_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(1)
    covered, rejected = 0, 0
    for trial in range(200):
        a_U = generator.normal(0.3, 1.0, size=80)
        b_U = generator.normal(0.0, 1.0, size=80)
        interval = paired_bootstrap(a_U, b_U, draws=400, seed=trial, level=0.9)
        covered += interval.low <= 0.3 <= interval.high
        null = paired_bootstrap(a_U - 0.3, b_U, draws=400, seed=trial)
        rejected += null.p_value < 0.05
    # 180 and 10 expected; four standard deviations either way.
    assert 163 <= covered <= 197
    assert rejected <= 23


def test_bootstrap_matches_the_normal_limit():
    generator = np.random.default_rng(2)
    difference_U = generator.normal(0.1, 1.0, size=2000)
    interval = paired_bootstrap(difference_U, np.zeros(2000), draws=4000)
    error = difference_U.std() / np.sqrt(2000)
    assert interval.difference == pytest.approx(difference_U.mean())
    assert interval.low == pytest.approx(difference_U.mean() - 1.96 * error, abs=0.15 * error)
    assert interval.high == pytest.approx(difference_U.mean() + 1.96 * error, abs=0.15 * error)


def test_bootstrap_is_deterministic_and_seeded():
    a_U, b_U = np.array([0.1, 0.9, 0.4, 0.3]), np.array([0.2, 0.1, 0.3, 0.3])
    one = paired_bootstrap(a_U, b_U, draws=200)
    assert one == paired_bootstrap(a_U, b_U, draws=200)
    assert one.low != paired_bootstrap(a_U, b_U, draws=200, seed=1).low


def test_sides_swap_signs_and_keep_the_p_value_near():
    generator = np.random.default_rng(4)
    a_U, b_U = generator.random(100), generator.random(100)
    one, two = paired_bootstrap(a_U, b_U), paired_bootstrap(b_U, a_U)
    assert one.low == pytest.approx(-two.high)
    assert one.p_value == two.p_value


def test_equal_sides_are_no_difference():
    interval = paired_bootstrap(np.ones(5), np.ones(5), draws=100)
    assert (interval.difference, interval.low, interval.high, interval.p_value) == (0, 0, 0, 1)


def test_every_user_better_is_as_significant_as_the_draws_allow():
    interval = paired_bootstrap(np.ones(5), np.zeros(5), draws=99)
    assert interval.p_value == 0.02


def test_drawing_in_pieces_changes_nothing(monkeypatch):
    a_U = np.random.default_rng(6).random(33)
    together = paired_bootstrap(a_U, a_U[::-1] - 0.01, draws=50)
    monkeypatch.setattr(significance, "_DRAWS_AT_ONCE", 7 * 33)
    assert paired_bootstrap(a_U, a_U[::-1] - 0.01, draws=50) == together


def test_bad_comparisons_are_said():
    with pytest.raises(TacitError, match=r"shapes \(2,\) and \(3,\)"):
        paired_bootstrap(np.zeros(2), np.zeros(3))
    with pytest.raises(TacitError, match="level between 0 and 1"):
        paired_bootstrap(np.zeros(2), np.zeros(2), level=95)


def test_seeds_are_averaged_by_user_and_spread_apart():
    def ranks(rows):
        return Ranks(*np.array(rows).T, part="test", candidate_set="full")

    one = ranks([(3, 0, 0, 0, 50), (5, 0, 20, 0, 50)])
    two = ranks([(5, 0, 20, 0, 50), (3, 0, 12, 0, 50)])
    user_E, value_E = per_user_over_seeds([one, two], "HR@10")
    assert user_E.tolist() == [3, 5]
    assert value_E.tolist() == [0.5, 0.0]
    with pytest.raises(TacitError, match="different users"):
        per_user_over_seeds([one, two.where(np.array([0]))], "HR@10")
    with pytest.raises(TacitError, match="at least one run"):
        per_user_over_seeds([], "HR@10")


def test_spread_over_seeds():
    spread = Spread.of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.deviation, spread.seeds) == (2.0, 1.0, 3)
    assert Spread.of([1.0]).deviation is None
    with pytest.raises(TacitError, match="at least one value"):
        Spread.of([])
