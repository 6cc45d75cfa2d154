"""Weights of views and inputs: rows per user, means of groups, and the planted truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.analysis.embeddings import auc
from tacit.analysis.finished import FinishedRun, finished_runs
from tacit.analysis.router import router, user_weights
from tacit.errors import TacitError


def told(run: FinishedRun) -> FinishedRun:
    """The run with routers that know the truth: weight by text or by image, none in between."""
    by_text_U = torch.from_numpy(run.prepared.dataset.truth["modality_preference_U"]).float()
    private = {name: value.clone() for name, value in run.state.private.items()}
    private["router.out.w"].zero_()
    zero_U = torch.zeros_like(by_text_U)
    private["router.out.b"] = 5 * torch.stack([zero_U, by_text_U, 1 - by_text_U], dim=1)
    run.__dict__["state"] = replace(run.state, private=private)
    return run


def test_rows_of_users_and_means_of_groups(fused_runs):
    several = finished_runs([fused_runs / name for name in ("mixed", "rap")])
    finding = router(several, n=20)
    (users,) = finding.unprinted
    views, inputs = finding.tables[:2]
    records = users.records()
    assert len(records) == 2 * 300
    for record in records:
        weights = [record[f"weight {name}"] for name in ("sum", "perceptron", "gate")]
        assert sum(weights) == pytest.approx(1.0, abs=1e-5)
    for run in several:
        own = [record for record in records if record["run"] == run.name]
        mean = np.mean([record["weight gate"] for record in own])
        for record in own[:10]:
            assert record["deviation gate"] == pytest.approx(record["weight gate"] - mean, abs=1e-6)
        quartile = [record for record in own if record["quartile"] == 1]
        assert max(r["train items"] for r in quartile) <= min(
            r["train items"] for r in own if r["quartile"] == 4
        )
        for table, column, of_group in (
            (views, "weight gate", "gate"),
            (views, "deviation", "deviation"),
            (inputs, "change image", "change image"),
            (inputs, "lift text", "lift text"),
        ):
            (row,) = [
                r for r in table.records() if (r["run"], r["group"]) == (run.name, "quartile 1")
            ]
            assert row["users"] == len(quartile) == 75
            assert row[of_group] == pytest.approx(np.mean([r[column] for r in quartile]))


def test_the_weight_of_an_input_by_hand(fused_runs):
    """Mean absolute change of the scores of own train items, through whole scorers."""
    (run,) = finished_runs([fused_runs / "rap"])
    found, user = user_weights(run), 11
    own_H = np.unique(run.prepared.split.train.positives[user])
    method = run.algorithm.method
    less = replace(method, items=replace(method.items, without=("image",)))
    (other,) = finished_runs([fused_runs / "rap"])
    other.__dict__["algorithm"] = replace(run.algorithm, method=less)
    full_H, less_H = (one.scores()(np.array([user]))[0][own_H] for one in (run, other))
    place = found.inputs.index("image")
    assert found.change_UM[user, place] == pytest.approx(np.abs(full_H - less_H).mean(), rel=1e-4)


def test_routers_that_know_are_found_out(fused_runs):
    (run,) = finished_runs([fused_runs / "single"])
    finding = router([told(run)])
    truth = next(table for table in finding.tables if table.name == "router-truth")
    found = {row["image minus text"]: row for row in truth.records()}
    assert list(found) == ["change", "lift", "router"]
    assert found["router"]["AUC"] == found["router"]["from"] == 1.0
    assert found["change"]["AUC"] > 0.9
    assert found["router"]["by image"] == found["router"]["by text"] == 100
    by_text_U = run.prepared.dataset.truth["modality_preference_U"]
    rows = finding.unprinted[0].records()
    value_U = np.array([row["change image"] - row["change text"] for row in rows])
    assert found["change"]["AUC"] == auc(value_U[by_text_U == 0], value_U[by_text_U == 1])


def test_runs_that_route_nothing(fused_runs):
    finding = router(finished_runs([fused_runs / "alone", fused_runs / "vbpr"]))
    assert [table.name for table in finding.tables] == ["router-modalities", "router-truth"]
    assert len(finding.figure.axes) == 2 * 2  # lifts and truth of each, and no empty panels
    said = " ".join(finding.sentences)
    assert "fcf + fedmr:views=sum has one view" in said
    assert "fedvbpr has no views" in said


def test_no_truth_no_claim(fused_runs):
    (run,) = finished_runs([fused_runs / "sent"])
    dataset = replace(run.prepared.dataset, truth={})
    run.__dict__["prepared"] = replace(run.prepared, dataset=dataset)
    finding = router([run])
    assert [table.name for table in finding.tables] == ["router", "router-modalities"]
    assert "AUC" not in " ".join(finding.sentences)


@pytest.mark.parametrize("name", ["fedmf", "popularity"])
def test_runs_without_content(runs, name):
    with pytest.raises(TacitError, match=f"{name} reads nothing of an item but its id"):
        router(finished_runs([runs / name]))
