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


def test_losses_of_several_runs_in_one_figure(runs):
    several = finished_runs([runs / name for name in ("fedmf", "pfedrec", "popularity")])
    finding = curves(several)
    assert len(finding.figure.axes) == 2
    # a line and a mark for each, and the line of popularity, which has no points
    lengths = [len(line.get_xdata()) for line in finding.figure.axes[1].get_lines()]
    assert lengths == [4, 1, 4, 1, 0]
    for name in ("fedmf", "pfedrec"):
        lines = (runs / name / "metrics.jsonl").read_text().splitlines()
        expected = [json.loads(line)["loss"] for line in lines]
        points = [row["loss"] for row in finding.unprinted[0].records() if row["run"] == name]
        assert points == expected
        (row,) = [row for row in finding.tables[0].records() if row["run"] == name]
        assert row["last loss"] == expected[-1]
        assert row["loss then"] == expected[row["selected round"] - 1]
    assert finding.tables[0].records()[2]["last loss"] is None


def test_no_panel_for_losses_that_nobody_has(runs):
    assert len(curves(finished_runs([runs / "popularity"])).figure.axes) == 1
