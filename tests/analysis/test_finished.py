"""Names of runs, and what is no finished run."""

from __future__ import annotations

import shutil

import pytest

from tacit.analysis.finished import finished_runs
from tacit.errors import TacitError


def test_names_are_as_short_as_they_can_be(runs, tmp_path):
    for name in ("a", "b/fedmf"):
        shutil.copytree(runs / "fedmf", tmp_path / name)
    several = [runs / "pfedrec", runs / "fedmf", tmp_path / "a", tmp_path / "b" / "fedmf"]
    first, second, third, fourth = (run.name for run in finished_runs(several))
    assert (first, third) == ("pfedrec", "fedmf (a)")
    assert second == f"fedmf ({runs / 'fedmf'})"
    assert fourth == f"fedmf ({tmp_path / 'b' / 'fedmf'})"


def test_names_may_be_given(runs):
    folders = [runs / "pfedrec", runs / "fedmf"]
    assert [run.name for run in finished_runs(folders, ["own", "global"])] == ["own", "global"]
    for names in (["own"], ["own", "own"]):
        with pytest.raises(TacitError, match="give each one of its own"):
            finished_runs(folders, names)


def test_what_cannot_be_analysed(runs, tmp_path):
    with pytest.raises(TacitError, match=r"there is no experiment\.toml"):
        finished_runs([tmp_path])
    with pytest.raises(TacitError, match="given twice"):
        finished_runs([runs / "fedmf", runs / ".." / runs.name / "fedmf"])
    shutil.copytree(runs / "fedmf", tmp_path / "cut")
    (tmp_path / "cut" / "run.json").unlink()
    with pytest.raises(TacitError, match="is not finished"):
        finished_runs([tmp_path / "cut"])


def test_a_lost_model(runs, tmp_path):
    shutil.copytree(runs / "fedmf", tmp_path / "one")
    shutil.rmtree(tmp_path / "one" / "model")
    with pytest.raises(TacitError, match="has lost its model folder"):
        _ = finished_runs([tmp_path / "one"])[0].state
