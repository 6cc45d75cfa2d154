"""Metrics of groups and what changed between two runs, by hand and on runs."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.analysis.finished import finished_runs
from tacit.analysis.groups import _changes, _means, group_values, groups
from tacit.errors import TacitError
from tacit.evaluation.ranks import Ranks


def ranks(*above: int) -> Ranks:
    """One held-out item per user, with so many candidates above it and none tied."""
    user_H = np.arange(len(above))
    zero = np.zeros_like(user_H)
    return Ranks(user_H, zero, np.array(above), zero, zero + 50, "test", "full")


def test_means_of_a_group():
    values = group_values(ranks(0, 2, 7, 30), "expected")
    users, ndcg5, recall5, ndcg10, recall10 = _means(values, np.array([0, 1, 2, 3]))
    assert users == 4
    assert recall5 == 0.5
    assert recall10 == 0.75
    assert ndcg5 == pytest.approx((1 + 1 / 2) / 4)  # log2(2) = 1, log2(4) = 2
    assert ndcg10 == pytest.approx((1 + 1 / 2 + 1 / np.log2(9)) / 4)
    assert _means(values, np.array([3]))[1:] == (0.0, 0.0, 0.0, 0.0)
    assert _means(values, np.array([9])) == (0, None, None, None, None)  # nothing is held out


def test_changes_of_a_group():
    before, after = (group_values(r, "expected") for r in (ranks(0, 2, 7, 30), ranks(2, 2, 0, 20)))
    users, _, recall5, _, recall10, better, worse, interval = _changes(
        before, after, np.array([0, 1, 2, 3])
    )
    assert users == 4
    assert recall5 == pytest.approx(50.0)  # 2 of 4 become 3 of 4
    assert recall10 == pytest.approx(0.0)  # 3 of 4 stay 3 of 4
    assert (better, worse) == (50.0, 25.0)  # users 2 and 3 rose, user 0 fell, user 1 stayed
    expected = (1 / 2 + 1 / 2 + 1 + 0 - 1 - 1 / 2 - 1 / np.log2(9) - 0) / 4
    assert interval.difference == pytest.approx(expected)
    alone = _changes(before, after, np.array([3]))
    assert alone[1:5] == (None, None, None, None)  # from nothing there is no relative change


def test_two_runs(runs):
    finding = groups(finished_runs([runs / "fedmf", runs / "pfedrec"]), n=50)
    table, changes = finding.tables
    everybody = {row["run"]: row for row in table.records() if row["group"] == "all"}
    for run in finished_runs([runs / "fedmf", runs / "pfedrec"]):
        for metric in ("NDCG@5", "Recall@5", "NDCG@10", "Recall@10"):
            expected = run.record.metrics.full[metric]
            assert everybody[run.name][metric] == pytest.approx(expected, abs=1e-12)
    rows = {row["group"]: row for row in changes.records()}
    first, second = (everybody[name]["NDCG@10"] for name in ("fedmf", "pfedrec"))
    assert rows["all"]["NDCG@10"] == pytest.approx(100 * (second - first) / first)
    assert [rows[name]["users"] for name in ("distinct", "followers", "cold 30%")] == [50, 50, 90]
    followers, distinct = (
        next(row["popular share"] for row in table.records() if row["group"] == name)
        for name in ("followers", "distinct")
    )
    assert followers > distinct


def test_too_few_users_are_said(runs):
    finding = groups(finished_runs([runs / "fedmf"]), n=1000)
    assert len(finding.tables) == 1
    assert "distinct ones and followers are 150 each instead of 1000" in finding.sentences[-1]


def test_three_runs_are_refused(runs):
    with pytest.raises(TacitError, match="give one or two"):
        groups(finished_runs([runs / n for n in ("fedmf", "pfedrec", "local_only")]))
