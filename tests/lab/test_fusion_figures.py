"""Figures of the fusion papers: parts, their runs, and pages that follow from their numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from lab import fusion_figures
from lab.asked import Asked
from lab.fusion_figures import FIGURES, Drawn, Figure, as_markdown, make, stored, write
from tacit.errors import TacitError

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SMALL = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
PUBLISHED = [name for name in FIGURES if (RESULTS / f"figure-{name}.json").is_file()]


@dataclass(frozen=True)
class Planted(Figure):
    """A figure of short runs on the embedded dataset."""

    def asked(self, part: str) -> Asked:
        return Asked(part, plugins=("fedmr",), rounds=2, sets=SMALL)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RESULTS.parents[1])


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("figures")


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("name", FIGURES)
def test_every_part_begins_from_a_chosen_cell(name: str) -> None:
    figure = FIGURES[name]
    for part in figure.parts:
        assert figure.asked(part).seed == 0
        assert len(set(figure.digests(part))) == len(figure.digests(part))


@pytest.mark.usefixtures("root")
def test_a_figure_of_no_cell_is_told() -> None:
    figure = replace(FIGURES["fedmr-gap"], cell="fedmr-ku: {} + nothing | ninerec-ku | clean")
    with pytest.raises(TacitError, match="begins from no cell"):
        figure.asked("fcf")


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures_are_those_of_today(name: str) -> None:
    drawn = stored(name, RESULTS)
    assert as_markdown(drawn) == (RESULTS / f"figure-{name}.md").read_text(encoding="utf-8")
    for part, found in drawn.parts.items():
        figure = FIGURES[name]
        assert found.digests == figure.digests(part), part
        assert (found.command, found.over) == (figure.asked(part).command, figure.over)


def test_an_analysis_of_each_part(out: Path) -> None:
    figure = Planted("Gap", "Says.", "", ("fcf", "fedavg"), analysis="gap")
    found = dict(make(figure, ["fcf", "fedavg"], out / "gap"))
    assert list(found) == ["fcf", "fedavg"]
    assert found["fcf"].digests == figure.digests("fcf") != found["fedavg"].digests
    assert "gap" in found["fcf"].tables[0].header
    assert found["fcf"].tables != found["fedavg"].tables
    for part in found:
        assert (out / "gap" / part / "gap.png").is_file()


def test_one_analysis_of_all_parts_shares_their_runs(out: Path) -> None:
    figure = Planted("Curves", "Says.", "", ("fcf", "fedavg"), analysis="curves", joint=True)
    before = sorted(path.name for path in (out / "trained").iterdir())
    found = dict(make(figure, figure.parts, out / "curves"))
    assert sorted(path.name for path in (out / "trained").iterdir()) == before  # of the test above
    assert (out / "curves" / "curves.png").is_file()
    names = {part: {row[0] for row in one.tables[0].rows} for part, one in found.items()}
    assert names == {"fcf": {"fcf + fedmr"}, "fedavg": {"fedavg + fedmr"}}


def test_a_sweep_of_each_part_and_its_lines(out: Path) -> None:
    over = ("participation.ratio=0.5,1.0",)
    figure = Planted("Shares", "Says.", "", ("fcf", "fedavg"), over=over)
    found = dict(make(figure, figure.parts, out / "shares"))
    (table,) = found["fcf"].tables
    assert table.header[:2] == ("participation.ratio", "validation NDCG@10")
    assert [row[0] for row in table.rows] == ["0.5", "1.0"]
    assert [row[-1] for row in table.rows].count("*") == 1
    assert len(found["fcf"].digests) == 2
    assert (out / "shares" / "lines.png").is_file()


def test_parts_that_were_not_asked_for_stay(out: Path, tmp_path: Path) -> None:
    figure = Planted("Gap", "Says.", "", ("fcf",), analysis="gap")
    ((_, part),) = make(figure, ["fcf"], out / "gap")
    write(Drawn(figure="fedmr-gap", parts={"fedavg": part, "fcf": part}), tmp_path)
    again = stored("fedmr-gap", tmp_path)
    assert list(again.parts) == ["fcf", "fedavg"]  # in the order of the figure
    assert again.parts["fcf"] == part
    page = (tmp_path / "figure-fedmr-gap.md").read_text(encoding="utf-8")
    assert page == as_markdown(again)
    assert "Parts: 2 of 5; pfedrec not run yet" in page
    assert stored("fedmr-router", tmp_path).parts == {}


@pytest.mark.usefixtures("root")
def test_widths_are_drawn_from_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = fusion_figures.widths(tmp_path)
    assert bool(drawn) == (tmp_path / "widths.png").is_file()
    monkeypatch.setattr(fusion_figures, "PUBLISHED", tmp_path)
    assert fusion_figures.widths(tmp_path / "none") == []  # no table there, nothing to draw
    assert not (tmp_path / "none").exists()
