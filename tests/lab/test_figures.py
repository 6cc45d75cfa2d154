"""Figures of the papers: their runs are what the file says, and their pages are their numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.figures import (
    Drawing,
    FigureNumbers,
    FigureOf,
    FigureRun,
    Part,
    Printed,
    as_markdown,
    defined,
)
from tacit.errors import TacitError
from tacit.study.study import digest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FIGURES = defined()
FEW = FigureOf(
    name="few",
    title="Few",
    analysis="curves",
    runs={
        "one": FigureRun("fedmf", rounds=2, sets=("evaluate_every=1",)),
        "two": FigureRun("pfedrec", rounds=2, on={"planted": ("evaluate_every=1",)}),
    },
    parts=(Part("planted", "clean", ("one", "two")), Part("planted", "pfedrec", ("one",))),
    printed=Printed(("method", "HR@10"), (("FedMF", "12.34"),)),
    points=True,
)


def drawing(figure: FigureOf, tmp_path: Path, **changes: object) -> FigureNumbers:
    return Drawing(figure, tmp_path / "runs", tmp_path, **changes).draw()  # type: ignore[arg-type]


def test_a_figure_is_made_of_its_runs_and_goes_on(tmp_path: Path) -> None:
    first = drawing(FEW, tmp_path, only="clean")
    assert list(first.parts) == ["planted | clean"]
    assert "Not run yet." in (tmp_path / "figure-few.md").read_text()
    one = first.parts["planted | clean"]
    assert one.rounds == {"one": 2, "two": 2}
    assert "tacit train pfedrec --data planted" in one.commands["two"]
    [points] = [table for table in one.tables if not table.texts]
    assert [row[:2] for row in points.rows] == [
        ("one", 1),
        ("one", 2),
        ("two", 1),
        ("two", 2),
    ]
    made = tmp_path / "runs" / "few"
    assert (made / "planted_clean" / "curves.png").is_file()

    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    both = drawing(FEW, tmp_path)
    assert both.parts["planted | clean"] == one
    assert set(both.parts) == {"planted | clean", "planted | pfedrec"}
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    text = (tmp_path / "figure-few.md").read_text()
    assert "2 of 2 parts" in text
    assert "| FedMF | 12.34 |" in text


def test_a_published_part_is_not_run_on_another_machine_unless_asked(tmp_path: Path) -> None:
    drawing(FEW, tmp_path, only="clean")
    elsewhere = Drawing(FEW, tmp_path / "elsewhere", tmp_path, only="clean")
    elsewhere.draw()
    assert not list((tmp_path / "elsewhere").rglob("run.json"))
    replace(elsewhere, again=True).draw()
    assert len(list((tmp_path / "elsewhere").rglob("run.json"))) == 2


def test_a_changed_definition_is_run_anew(tmp_path: Path) -> None:
    drawing(FEW, tmp_path)
    longer = {**FEW.runs, "two": replace(FEW.runs["two"], rounds=3)}
    numbers = FigureNumbers.read(replace(FEW, runs=longer), tmp_path)
    assert list(numbers.parts) == ["planted | pfedrec"]


@pytest.mark.parametrize(
    "change",
    [{"analysis": "cost"}, {"points": False}, {"options": {"metric": "HR@10"}}],
    ids=lambda change: next(iter(change)),
)
def test_runs_that_are_looked_at_otherwise_are_looked_at_anew(
    change: dict[str, Any], tmp_path: Path
) -> None:
    """The runs are the same, but the tables of the old look are not those of the new one."""
    drawing(FEW, tmp_path)
    assert len(FigureNumbers.read(FEW, tmp_path).parts) == 2
    if "options" in change:
        parts = (replace(FEW.parts[0], **change), FEW.parts[1])
        assert list(FigureNumbers.read(replace(FEW, parts=parts), tmp_path).parts) == [
            "planted | pfedrec"
        ]
    else:
        assert FigureNumbers.read(replace(FEW, **change), tmp_path).parts == {}


def test_options_are_stored_as_they_are_read(tmp_path: Path) -> None:
    part = replace(FEW.parts[1], options={"metric": "HR@10"})
    few = replace(FEW, parts=(part,))
    made = drawing(few, tmp_path)
    assert made.parts[part.key].look == few.look(part)
    assert FigureNumbers.read(few, tmp_path) == made


def test_no_run_is_begun_without_time(tmp_path: Path) -> None:
    assert drawing(FEW, tmp_path, budget=0.0).parts == {}


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="has no run 'three'"):
        replace(FEW, parts=(Part("planted", "clean", ("three",)),))
    with pytest.raises(TacitError, match="two parts of one name"):
        replace(FEW, parts=FEW.parts[:1] * 2)
    wrong = tmp_path / "figures.toml"
    wrong.write_text('[[figures]]\nname = "few"\nno = 1\n')
    with pytest.raises(TacitError, match="cannot be read"):
        defined(wrong)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=lambda figure: figure.name)
def test_every_run_of_a_real_figure_exists_and_differs(figure: FigureOf) -> None:
    for part in figure.parts:
        experiments = [figure.asked(part, name).experiment() for name in part.runs]
        assert len({digest(one) for one in experiments}) == len(part.runs)


def test_runs_of_figure_5_are_those_of_figure_4() -> None:
    four, five = FIGURES["fedrkg-figure-4"], FIGURES["fedrkg-figure-5"]
    there = {part.key: four.digests(part) for part in four.parts}
    for part in five.parts:
        assert five.digests(part).items() <= there[part.key].items()


def test_before_and_after_a_guidance_differ_in_rounds_alone() -> None:
    figure = FIGURES["fedrkg-table-4"]
    for part in figure.parts:
        before, after = (figure.asked(part, name) for name in part.runs)
        assert after.rounds == before.rounds + 1
        assert replace(after, rounds=before.rounds) == before
        guides = before.experiment().method.composed.sync.sends(before.rounds)  # type: ignore[union-attr]
        assert guides == ("one more" not in part.key)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RESULTS.glob("figure-*.json")) if path.stem[7:] in FIGURES],
    ids=lambda path: path.stem,
)
def test_a_published_figure_is_what_its_numbers_make_and_of_today(path: Path) -> None:
    figure = FIGURES[path.stem.removeprefix("figure-")]
    stored = FigureNumbers.model_validate_json(path.read_text(encoding="utf-8"))
    assert stored.model_dump_json(indent=1) + "\n" == path.read_text(encoding="utf-8")
    assert FigureNumbers.read(figure, RESULTS) == stored
    assert as_markdown(figure, stored) == path.with_suffix(".md").read_text(encoding="utf-8")


def test_every_figure_of_the_docs_is_there() -> None:
    text = (RESULTS.parent / "tables.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in FIGURES)
