"""Exchanged tables, on states small enough to score by hand."""

from __future__ import annotations

import numpy as np
import torch

from tacit.analysis.finished import finished_runs
from tacit.analysis.inference import adds_global, exchanged, item_vectors, someone_else
from tacit.core.types import OWN_ITEMS
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank


def test_everybody_gets_another_one_s_once():
    for n_users in (2, 3, 50):
        other_U = someone_else(n_users, seed=1)
        assert sorted(other_U.tolist()) == list(range(n_users))
        assert (other_U != np.arange(n_users)).all()
    assert not np.array_equal(someone_else(50, seed=1), someone_else(50, seed=2))


def test_item_vectors_score_as_the_scorer_does(runs):
    """With a linear scorer the vectors and the scores must tell the same story."""
    for name in ("pfedrec", "local_only", "fedrap", "fedmf"):
        run = finished_runs([runs / name])[0]
        x_ID = torch.from_numpy(item_vectors(run.algorithm, run.state, 5))
        own = {parameter: value[5] for parameter, value in run.state.private.items()}
        score_I = run.algorithm.method.backbone.score({**run.state.shared, **own}, x_ID)
        expected = run.scores()(np.array([5]))[0]
        assert np.allclose(score_I.numpy(), expected, atol=1e-4, rtol=1e-4), name


def test_who_adds_the_global_table(runs):
    adds = {
        name: adds_global(finished_runs([runs / name])[0].algorithm)
        for name in ("fedrap", "gated", "pfedrec", "local_only")
    }
    assert adds == {"fedrap": True, "gated": False, "pfedrec": False, "local_only": False}


def _scores(run, table, user):
    tables = exchanged(run.name, run.algorithm, run.state, run.scores, seed=0)
    return tables.scores[table](np.array([user]))[0]


def _linear(run, user, x_ID):
    own = {name: value[user] for name, value in run.state.private.items()}
    return run.algorithm.method.backbone.score({**run.state.shared, **own}, x_ID).numpy()


def test_tables_of_a_tuned_copy(runs):
    run, user = finished_runs([runs / "pfedrec"])[0], 7
    other = int(someone_else(run.algorithm.task.n_users, seed=0)[user])
    theirs = torch.from_numpy(item_vectors(run.algorithm, run.state, other))
    expected = _linear(run, user, theirs)
    assert np.allclose(_scores(run, "another's", user), expected, atol=1e-4, rtol=1e-4)
    expected = _linear(run, user, run.state.shared["items"])
    assert np.allclose(_scores(run, "global", user), expected, atol=1e-4, rtol=1e-4)


def test_tables_of_a_personal_one(runs):
    run, user = finished_runs([runs / "gated"])[0], 7
    other = int(someone_else(run.algorithm.task.n_users, seed=0)[user])
    expected = _linear(run, user, run.state.private[OWN_ITEMS][other])
    assert np.allclose(_scores(run, "another's", user), expected, atol=1e-4, rtol=1e-4)
    expected = _linear(run, user, run.state.shared["items"])
    assert np.allclose(_scores(run, "global", user), expected, atol=1e-4, rtol=1e-4)


def test_tables_that_are_added(runs):
    run, user = finished_runs([runs / "fedrap"])[0], 7
    other = int(someone_else(run.algorithm.task.n_users, seed=0)[user])
    common, personal = run.state.shared["items"], run.state.private[OWN_ITEMS]
    for table, x_ID in (
        ("own", personal[user] + common),
        ("global", common),
        ("personal part", personal[user]),
        ("another's", personal[other] + common),
    ):
        found = _scores(run, table, user)
        assert np.allclose(found, _linear(run, user, x_ID), atol=1e-4, rtol=1e-4), table


def test_the_own_table_gives_the_run_s_own_result(runs):
    for name in ("pfedrec", "local_only", "fedrap"):
        run = finished_runs([runs / name])[0]
        tables = exchanged(run.name, run.algorithm, run.state, run.scores, seed=0)
        full = rank(tables.scores["own"], run.prepared.split.test).full
        assert metric(full, "NDCG@10") == run.record.metrics.full["NDCG@10"]
