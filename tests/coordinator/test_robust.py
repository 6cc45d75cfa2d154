"""Rules that a few bad uploads cannot move, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.coordinator.robust import NodeUpload, RobustRule
from tacit.errors import TacitError


def uploads(*values: list[float], weights: tuple[float, ...] | None = None) -> list[NodeUpload]:
    weights = weights or (1.0,) * len(values)
    return [
        NodeUpload({"a": np.array(value)}, weight, 1)
        for value, weight in zip(values, weights, strict=True)
    ]


def found(rule: RobustRule, sent: list[NodeUpload]) -> list[float]:
    total = rule.total(sent, {"a": np.shape(sent[0].sums["a"])})
    return np.ravel(total.sums["a"]).tolist()


def test_the_mean_is_the_weighted_sum() -> None:
    sent = uploads([1.0, 2.0], [6.0, 0.0], weights=(1.0, 3.0))
    total = RobustRule().total(sent, {"a": (2,)})
    assert total.sums["a"].tolist() == [7.0, 2.0]
    assert (total.weight, total.clients) == (4.0, 2)


def test_a_bound_shortens_long_uploads_and_no_others() -> None:
    sent = uploads([3.0, 4.0], [0.3, 0.4], [60.0, 80.0])
    # to norm 5: the first stays, the last becomes a twentieth
    given = RobustRule("norm_bound", bound=5.0)
    assert found(given, sent) == pytest.approx([6.3, 8.4])
    # the median norm is 5, too
    median = RobustRule("norm_bound", outlier=math.inf, lengthen=False)
    assert found(median, sent) == pytest.approx([6.3, 8.4])


def test_an_upload_of_many_bounds_is_left_out_and_the_others_stand_for_all() -> None:
    sent = uploads([3.0, 4.0], [0.3, 0.4], [60.0, 80.0])
    # 100 is more than four times 5: (3.3, 4.4) of two, times three halves
    for rule in (RobustRule("norm_bound"), RobustRule("norm_bound", bound=5.0, outlier=4.0)):
        assert found(rule, sent) == pytest.approx([4.95, 6.6])
    # 20 bounds are just enough for it
    wide = RobustRule("norm_bound", bound=5.0, outlier=20.0)
    assert found(wide, sent) == pytest.approx([6.3, 8.4])


def test_those_who_are_left_out_are_counted_by_their_weight() -> None:
    sent = uploads([2.0], [6.0], [900.0], weights=(1.0, 3.0, 4.0))
    total = RobustRule("norm_bound", bound=6.0, outlier=4.0).total(sent, {"a": (1,)})
    # 8 of a weight of 4, for a weight of 8
    assert (total.sums["a"].tolist(), total.weight, total.clients) == ([16.0], 8.0, 3)


def test_what_the_median_took_is_given_back_to_all_by_one_factor() -> None:
    sent = uploads([1.0], [2.0], [-6.0])
    # the median is 2: norms of 1, 2 and 6 become 1, 2 and 2, and their sum is to be 9 again
    assert found(RobustRule("norm_bound"), sent) == pytest.approx([(1.0 + 2.0 - 2.0) * 9 / 5])
    assert found(RobustRule("norm_bound", lengthen=False), sent) == pytest.approx([1.0])
    # a bound that was given is kept
    assert found(RobustRule("norm_bound", bound=2.0), sent) == pytest.approx([1.0])


def test_lengths_are_those_of_people() -> None:
    sent = [
        NodeUpload({"a": np.array([value])}, float(clients), clients)
        for value, clients in ((1.0, 1), (6.0, 3), (4.0, 1))
    ]
    # 1, 2 and 4 a person become 1, 2 and 2: of five people 11 in all, and 9 after shortening
    assert found(RobustRule("norm_bound"), sent) == pytest.approx([(1.0 + 6.0 + 2.0) * 11 / 9])


def test_small_nodes_beside_large_ones_are_not_left_out() -> None:
    """Uploads of honest people are nearly at right angles, so means of many are short."""
    generator = np.random.default_rng(0)
    people = [100] * 9 + [4, 1]
    honest = [
        NodeUpload({"a": generator.normal(size=(n, 400)).sum(0)}, float(n), n) for n in people
    ]
    bad = NodeUpload({"a": 50 * generator.normal(size=400)}, 1.0, 1)
    rule = RobustRule("norm_bound")
    assert [one.upload for one in rule._bounded(honest)] == honest
    assert [one.upload for one in rule._bounded([*honest, bad])] == honest


def test_uploads_of_which_most_are_nothing_make_nothing() -> None:
    sent = uploads([0.0], [0.0], [7.0])
    for outlier in (4.0, math.inf):
        assert found(RobustRule("norm_bound", outlier=outlier), sent) == [0.0]


@pytest.mark.parametrize("times", [0.5, 1.0, 3.9, 10.0, 1e6])
def test_a_minority_cannot_move_the_sum_further_than_its_honest_lengths_allow(times: float) -> None:
    generator = np.random.default_rng(0)
    honest, bad = generator.normal(size=(6, 8)), generator.normal(size=(5, 8))
    longest = np.linalg.norm(honest, axis=1).max()
    sent = uploads(*honest.tolist(), *(times * bad).tolist())
    moved = np.linalg.norm(found(RobustRule("norm_bound"), sent))
    assert moved <= 4.0 * longest * len(sent)


def test_a_bound_holds_for_all_parameters_together_and_for_each_person() -> None:
    of_two = NodeUpload({"a": np.array([6.0]), "b": np.array([8.0])}, 2.0, 2)
    total = RobustRule("norm_bound", bound=2.5).total([of_two], {"a": (1,), "b": (1,)})
    assert (total.sums["a"].tolist(), total.sums["b"].tolist()) == ([3.0], [4.0])


def test_nothing_need_be_left_out_where_nothing_is_lengthened() -> None:
    RobustRule("norm_bound", outlier=math.inf, lengthen=False).check(secure=False)
    RobustRule("norm_bound", bound=1.0).check(secure=False)


def test_a_given_bound_below_all_uploads_shortens_them_and_leaves_none_out() -> None:
    sent = uploads([3.0, 4.0], [6.0, 8.0], [-30.0, 40.0])
    # norms of 5, 10 and 50 become a hundredth each
    rule = RobustRule("norm_bound", bound=0.01)
    assert found(rule, sent) == pytest.approx([0.006, 0.024])


def test_the_median_is_taken_in_every_coordinate() -> None:
    sent = uploads([1.0, 9.0], [2.0, 8.0], [1000.0, -1000.0])
    assert found(RobustRule("median"), sent) == [6.0, 24.0]


def test_the_median_is_of_means_over_people() -> None:
    sent = uploads([4.0], [9.0], [30.0], weights=(4.0, 3.0, 3.0))
    # 1, 3 and 10 a person; ten people
    assert found(RobustRule("median"), sent) == [30.0]


def test_a_trimmed_mean_leaves_both_ends_out() -> None:
    sent = uploads([1.0], [2.0], [3.0], [4.0], [500.0])
    assert found(RobustRule("trimmed_mean", trim=0.2), sent) == [15.0]
    assert found(RobustRule("trimmed_mean", trim=0.4), sent) == [15.0]
    assert found(RobustRule("trimmed_mean", trim=0.0), sent) == [510.0]


def test_rows_that_few_touched_count_with_those_who_touched_them() -> None:
    table = [[0.0, 0.0], [0.0, 0.0]]
    sent = uploads(
        *([table] * 7), [[1.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0, 0]], [[9.0, 4.0], [0, 0]]
    )  # type: ignore[arg-type]
    assert found(RobustRule("median"), sent) == [0.0, 0.0, 0.0, 0.0]
    # three of ten touched the first row: their median, times three
    assert found(RobustRule("median", touched=True), sent) == pytest.approx([6.0, 0.0, 0.0, 0.0])


def test_a_table_of_more_rows_than_a_block_is_the_same_rule_in_every_row() -> None:
    """Against sorting whole columns of numbers, with rows that few and many touched."""
    generator = np.random.default_rng(1)
    table_NRE = generator.normal(size=(10, 150, 3))
    table_NRE[generator.random((10, 150)) < 0.4] = 0.0
    sent = uploads(*table_NRE)  # type: ignore[arg-type]
    for touched in (True, False):
        rule = RobustRule("trimmed_mean", trim=0.2, touched=touched)
        expected_RE = np.zeros((150, 3))
        for row in range(150):
            value_ME = table_NRE[:, row]
            if touched:
                value_ME = value_ME[(value_ME != 0.0).any(axis=1)]
            ends = len(value_ME) // 5
            if len(value_ME):
                middle_E = np.sort(value_ME, axis=0)[ends : len(value_ME) - ends].mean(axis=0)
                expected_RE[row] = middle_E * len(value_ME)
        assert found(rule, sent) == pytest.approx(expected_RE.ravel().tolist(), abs=1e-12)


def test_the_median_of_an_even_number_lies_in_the_middle_of_two() -> None:
    assert found(RobustRule("median"), uploads([1.0], [2.0], [4.0], [900.0])) == [12.0]


def test_norms_first_and_then_the_rule() -> None:
    sent = uploads([1.0], [1.0], [1.0], [50.0], [60.0])
    rule = RobustRule("trimmed_mean", trim=0.0, norm_first=True)
    assert found(rule, sent) == [5.0]


def test_nobody_is_nothing() -> None:
    nobody = [NodeUpload({}, 0.0, 0)]
    for name in ("mean", "norm_bound", "median", "trimmed_mean"):
        total = RobustRule(name).total(nobody, {"a": (2,)})  # type: ignore[arg-type]
        assert (total.sums["a"].tolist(), total.clients) == ([0.0, 0.0], 0)


@pytest.mark.parametrize("name", ["norm_bound", "median", "trimmed_mean"])
def test_rules_refuse_masks(name: str) -> None:
    with pytest.raises(TacitError, match="single uploads, which nobody sees under secure sums"):
        RobustRule(name).check(secure=True)  # type: ignore[arg-type]
    RobustRule(name).check(secure=False)  # type: ignore[arg-type]
    RobustRule("mean").check(secure=True)


@pytest.mark.parametrize(
    "rule",
    [
        RobustRule("trimmed_mean", trim=0.5),
        RobustRule("norm_bound", bound=0.0),
        RobustRule("norm_bound", outlier=0.5),
        RobustRule("norm_bound", outlier=math.nan),
        RobustRule("norm_bound", outlier=math.inf),
        RobustRule("best"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense_are_refused(rule: RobustRule) -> None:
    with pytest.raises(TacitError):
        rule.check(secure=False)
