"""AUC by hand, and what an item is to a user."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.analysis.embeddings import auc, embeddings, item_kinds, user_auc
from tacit.analysis.finished import finished_runs
from tacit.errors import TacitError


def test_auc_counts_pairs():
    # 3 beats 2, 1 and 1; 1 loses to 2 and ties twice: (3 + 0.5 + 0.5) of 6 pairs
    assert auc(np.array([3.0, 1.0]), np.array([2.0, 1.0, 1.0])) == pytest.approx(4 / 6)
    assert auc(np.array([5.0]), np.array([1.0, 2.0])) == 1.0
    assert auc(np.array([0.0]), np.array([1.0, 2.0])) == 0.0
    assert auc(np.array([]), np.array([1.0])) is None


def test_held_out_items_are_no_negatives_of_train_items():
    kind_I = np.array(["train", "train", "held out", "others", "others"], dtype=object)
    score_I = np.array([4.0, 2.0, 9.0, 3.0, 1.0])
    # train: 4 beats both, 2 beats one of two; held out: 9 beats both
    assert user_auc(score_I, kind_I) == (0.75, 1.0)


def test_the_figure_s_numbers(runs):
    run = finished_runs([runs / "pfedrec"])[0]
    finding = embeddings([run], user="user-3")
    (table,), (points,) = finding.tables, finding.unprinted
    one, everybody = table.records()
    code = run.prepared.dataset.interactions.users.index("user-3")
    kind_I = item_kinds(run.prepared, code)
    split = run.prepared.split
    assert (kind_I == "train").sum() == len(split.train.positives[code])
    assert (kind_I == "held out").sum() == 2  # one for validation, one for test
    expected = user_auc(run.scores()(np.array([code]))[0], kind_I)
    assert (one["AUC train"], one["AUC held out"]) == expected
    assert one["who"] == "user user-3"
    assert everybody["users"] == split.train.n_users
    assert 0 <= everybody["AUC held out"] <= 1
    assert len(points.rows) == split.train.n_items
    assert [row["kind"] for row in points.records()] == kind_I.tolist()
    assert "fitting only" in finding.figure.get_supxlabel()


def test_the_default_user_has_a_median_history(runs):
    run = finished_runs([runs / "fedmf"])[0]
    who = embeddings([run]).tables[0].records()[0]["who"].removeprefix("user ")
    size_U = run.prepared.split.train.positives.size_U
    own = size_U[run.prepared.dataset.interactions.users.index(who)]
    assert own in (np.sort(size_U)[149], np.sort(size_U)[150])


def test_strangers_and_methods_without_tables(runs):
    with pytest.raises(TacitError, match="No user 'nobody' in the data; ids look like user-"):
        embeddings(finished_runs([runs / "fedmf"]), user="nobody")
    with pytest.raises(TacitError, match="popularity trains no item table"):
        embeddings(finished_runs([runs / "popularity"]))
