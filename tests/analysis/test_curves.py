"""Curves are the lines of metrics.jsonl."""

from __future__ import annotations

import json

import pytest

from tacit.analysis.curves import curves
from tacit.analysis.finished import finished_runs
from tacit.errors import TacitError


def test_values_by_round(runs):
    finding = curves(
        finished_runs([runs / "fedmf", runs / "pfedrec"]), metric="NDCG@10", ranking="sampled99"
    )
    lines = (runs / "fedmf" / "metrics.jsonl").read_text().splitlines()
    expected = [json.loads(line)["valid"]["sampled99"]["NDCG@10"] for line in lines]
    points = [row for row in finding.unprinted[0].records() if row["run"] == "fedmf"]
    assert [row["round"] for row in points] == [1, 2, 3, 4]
    assert [row["NDCG@10"] for row in points] == expected
    summary = finding.tables[0].records()
    assert [row["run"] for row in summary] == ["fedmf", "pfedrec"]
    assert summary[0]["best"] == max(expected)
    selected = summary[0]["selected round"]
    assert summary[0]["selected"] == expected[selected - 1]


def test_metrics_that_were_not_measured_by_round(runs):
    with pytest.raises(TacitError, match="No 'HR@5' by round in fedmf; did you mean 'HR@10'"):
        curves(finished_runs([runs / "fedmf"]), metric="HR@5")


def test_different_data_do_not_share_a_figure(runs, tmp_path):
    from tacit.experiment.resolve import resolve
    from tacit.experiment.run import run

    run(resolve("popularity", split="random"), tmp_path / "other")
    with pytest.raises(TacitError, match="do not compare"):
        curves(finished_runs([runs / "fedmf", tmp_path / "other"]))
