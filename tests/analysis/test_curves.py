"""Curves are the lines of metrics.jsonl."""

from __future__ import annotations

import json
import shutil

import pytest

from tacit.analysis.curves import curves
from tacit.analysis.finished import finished_runs
from tacit.errors import TacitError
from tacit.experiment.folder import RunFolder


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


def test_runs_on_untouched_items_show_recall(runs, cold_runs):
    (run,) = finished_runs([cold_runs / "cold"])
    finding = curves([run])
    expected = [line.valid.full["Recall@20"] for line in run.rounds]
    assert [row["Recall@20"] for row in finding.unprinted[0].records()] == expected
    assert finding.figure.axes[0].get_ylabel() == "validation Recall@20, full ranking"
    assert "Recall@100" in curves([run], metric="Recall@100").unprinted[0].header
    # only the full ranking has recall; other runs have none, and are shown as ever
    assert "HR@10" in curves([run], ranking="sampled99").unprinted[0].header
    assert "HR@10" in curves(finished_runs([runs / "fedmf"])).unprinted[0].header
    with pytest.raises(TacitError, match="No 'Recall@20' by round in fedmf"):
        curves(finished_runs([runs / "fedmf"]), metric="Recall@20")


def test_a_run_from_before_recall_was_written_is_shown_by_hit_rate(cold_runs, tmp_path):
    shutil.copytree(cold_runs / "cold", tmp_path / "old")
    path = tmp_path / "old" / "metrics.jsonl"
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    for name in ("Recall@20", "Recall@50", "Recall@100"):
        del first["valid"]["full"][name]
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, *others)))
    with pytest.raises(TacitError, match=r"metrics\.jsonl' is damaged: its checksum"):
        curves(finished_runs([tmp_path / "old"]))
    folder = RunFolder(tmp_path / "old")
    folder.write_checksums(folder.result_file.read_text())
    finding = curves(finished_runs([tmp_path / "old"]))
    assert "HR@10" in finding.unprinted[0].header
