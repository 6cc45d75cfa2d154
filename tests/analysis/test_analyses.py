"""Every analysis writes its figure in two formats and its numbers, legibly and repeatably."""

from __future__ import annotations

import csv

import pytest
from matplotlib.text import Text

from tacit.analysis.analyses import ANALYSES, analyse
from tacit.errors import TacitError


@pytest.mark.parametrize("name", list(ANALYSES))
def test_files(runs, fused_runs, cold_runs, tmp_path, name):
    run = fused_runs / "mixed" if name in ("router", "modalities", "gap") else runs / "gated"
    if name == "clouds":
        run = cold_runs / "cold"
    finding, files = analyse(name, [run], tmp_path / "one")
    assert {path.name for path in files} == {path.name for path in (tmp_path / "one").iterdir()}
    assert {f"{name}.png", f"{name}.svg", f"{name}.csv"} <= {path.name for path in files}
    for table in (*finding.tables, *finding.unprinted):
        with (tmp_path / "one" / f"{table.name}.csv").open(newline="") as stream:
            rows = list(csv.reader(stream))
        assert rows[0] == table.header
        assert len(rows) == 1 + len(table.rows)
    texts = [text for text in finding.figure.findobj(Text) if text.get_text()]
    assert min(text.get_fontsize() for text in texts) >= 9
    assert all(panel.get_xlabel() for panel in finding.figure.axes)


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    one, other = (analyse("curves", [runs / "fedmf"], tmp_path / name)[1] for name in "ab")
    for first, second in zip(one, other, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_options_belong_to_their_analysis(runs, tmp_path):
    with pytest.raises(TacitError, match="--user is not for groups, which takes --n"):
        analyse("groups", [runs / "fedmf"], tmp_path, user="user-1")
    with pytest.raises(TacitError, match="--n is not for cost, which takes none"):
        analyse("cost", [runs / "fedmf"], tmp_path, n=3)
    with pytest.raises(TacitError, match="needs at least one finished run"):
        analyse("cost", [])
