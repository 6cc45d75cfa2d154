"""How long a search must be: curves are those of runs, and the page follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab import search_length
from lab.definition import Data, Place, Row, Table
from lab.search_length import Curve, Drawn, Lengths, as_markdown, curve_of, draw, measure
from tacit.experiment.prepare import prepare
from tacit.experiment.run import run
from tacit.study.search import search

RESULTS = Path(__file__).parents[2] / "docs" / "results"
ROW = Row(
    "fedmf",
    "fedmf",
    sets=("protocol.patience=2",),
    settings=(("local.items.rate=0.01",), ("local.items.rate=0.3",)),
    rounds=8,
    search_rounds=2,
    evaluate_every=1,
)
TABLE = Table("few", "Few", (ROW,), (Data("planted"),), (("full", "HR@10"),), 2)
PLACE = Place(TABLE, ROW, TABLE.datasets[0], "clean")


def curve(*values: float, ended: Any = "all rounds") -> Curve:
    rounds = tuple(range(1, len(values) + 1))
    return Curve(sets=(str(values),), rounds=rounds, values=values, ended=ended, cpu_seconds=0.5)


def drawn(*curves: Curve) -> Drawn:
    return Drawn(
        table="few",
        place="fedmf | planted | clean",
        by="full-ranking NDCG@10",
        search_rounds=2,
        rounds=4,
        settings=2,
        digest="d",
        curves=curves,
    )


def test_what_a_search_loses_follows_from_the_curves() -> None:
    fast, slow = curve(0.3, 0.3, 0.3, 0.3), curve(0.1, 0.2, 0.35, 0.4)
    one = drawn(fast, slow)
    assert [one.chosen(length) for length in (1, 2, 3, 4)] == [0, 0, 1, 1]
    assert one.lost(2) == pytest.approx(0.1)
    assert one.lost(3) == 0
    # a setting whose run diverges is taken back, however good it looked
    assert drawn(curve(0.9, 0.9, ended="diverged"), slow).chosen(2) == 1
    near = drawn(curve(0.5, 0.5, 0.5, 0.5), curve(0.1, 0.1, 0.1, 0.504))
    assert near.lost(2) != 0
    assert near.near(2)
    assert not one.near(2)
    equal = drawn(fast, curve(0.1, 0.3, 0.3, 0.3))
    assert equal.lost(1) == 0


def test_a_curve_is_that_of_the_run(tmp_path: Path) -> None:
    setting = PLACE.settings[1]
    experiment = PLACE.experiment(setting, 0)
    found = curve_of(PLACE, setting, prepare(experiment))
    record = run(experiment, tmp_path / "one")
    assert found.rounds[-1] == record.rounds_run
    assert found.best(8) == pytest.approx(record.test_released.validation_value)
    assert found.ended == ("patience" if record.rounds_run < 8 else "all rounds")


def test_a_short_search_sees_what_the_curve_says() -> None:
    lengths = measure([PLACE], Lengths(seed=0, datasets=("planted",), drawn=()))
    short = {one: PLACE.experiment(one, 0, search=True) for one in PLACE.settings}
    choice = search(short)
    assert lengths.drawn[0].finished
    assert [c.best(2) for c in lengths.drawn[0].curves] == [one.validation for one in choice.tried]
    assert lengths.drawn[0].chosen(2) == choice.chosen


def test_what_is_known_is_not_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = measure([PLACE], Lengths(seed=0, datasets=("planted",), drawn=()))

    def refuse(*_: object) -> Curve:
        raise AssertionError("It was trained again.")

    monkeypatch.setattr(search_length, "curve_of", refuse)
    assert measure([PLACE], lengths) == lengths


def test_a_draw_is_the_same_for_a_seed_and_names_no_row_twice() -> None:
    places = [f"{place.table.name}: {place.key}" for place in draw(("filmtrust",), 10, 0)]
    assert len(set(places)) == 10
    assert places == [f"{p.table.name}: {p.key}" for p in draw(("filmtrust",), 10, 0)]
    assert places != [f"{p.table.name}: {p.key}" for p in draw(("filmtrust",), 10, 1)]


def test_the_page_counts_rows_that_are_right() -> None:
    wrong = drawn(curve(0.3, 0.3, 0.3, 0.3), curve(0.1, 0.2, 0.35, 0.4))
    right = drawn(curve(0.1, 0.1, 0.1, 0.1), curve(0.1, 0.2, 0.35, 0.4))
    page = as_markdown(Lengths(seed=0, datasets=("planted",), drawn=(wrong, right, drawn())))
    assert "A search of the table's length would choose" in page  # no recorded choice is read
    assert "for 1 of 2 rows" in page
    assert "and one within 1% of it for 1." in page
    assert "| 100% | 2 | 2 | 2 | 0.00 |" in page
    assert "(0 of 2 settings)" in page


def test_the_published_page_is_its_numbers_and_of_today() -> None:
    text = (RESULTS / search_length.FILE).read_text(encoding="utf-8")
    found = Lengths.model_validate_json(text)
    page = (RESULTS / search_length.FILE).with_suffix(".md").read_text(encoding="utf-8")
    assert as_markdown(found) == page
    places = draw(found.datasets, len(found.drawn), found.seed)
    for place, one in zip(places, found.drawn, strict=True):
        assert search_length.nothing_yet(place).digest == one.digest
