"""Rules that a few bad uploads cannot move, by hand."""

from __future__ import annotations

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
    assert found(RobustRule("norm_bound", bound=5.0), sent) == pytest.approx([6.3, 8.4])
    # the median norm is 5, too
    assert found(RobustRule("norm_bound"), sent) == pytest.approx([6.3, 8.4])


def test_a_bound_holds_for_all_parameters_together_and_for_each_person() -> None:
    of_two = NodeUpload({"a": np.array([6.0]), "b": np.array([8.0])}, 2.0, 2)
    total = RobustRule("norm_bound", bound=2.5).total([of_two], {"a": (1,), "b": (1,)})
    assert (total.sums["a"].tolist(), total.sums["b"].tolist()) == ([3.0], [4.0])


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
    [RobustRule("trimmed_mean", trim=0.5), RobustRule("norm_bound", bound=0.0), RobustRule("best")],  # type: ignore[arg-type]
)
def test_settings_that_make_no_sense_are_refused(rule: RobustRule) -> None:
    with pytest.raises(TacitError):
        rule.check(secure=False)
