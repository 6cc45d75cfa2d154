"""A published table goes on anywhere: what stands in its results file is not run again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lab import cold_planted, fusion_planted, honest_table, order_figures, privacy_table, tune
from lab.definition import Data, Overrides, Place, Row, Table, load_table, table_names
from lab.fill import Filling
from lab.render import as_markdown
from lab.results import DoneCell, Results
from lab.verdict import paired_test, part_text
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.study import study as study_module


def rates(*pairs: tuple[float, float]) -> tuple[Overrides, ...]:
    """Settings of methods that step a model and items."""
    fields = ("local.model.rate={0}", "local.items.rate={0}", "local.items.per_item={1}")
    return tuple(tuple(field.format(*pair) for field in fields) for pair in pairs)


RESULTS = Path(__file__).parents[2] / "docs" / "results"
# Seeds begin elsewhere and end in one subspace: scores of two of them differ by 3e-7 of their size.
CONVERGED = ("fedspectral, degrees | ninerec-ku | clean",)
FEDMF = Row(
    "fedmf",
    "fedmf",
    settings=rates((0.1, 5.0), (0.1, 20.0)),
    rounds=4,
    search_rounds=2,
    evaluate_every=2,
)
FREE = Row("popularity", "popularity", rounds=1, search_rounds=1, seeded=False, free=True)
RANDOM = replace(FREE, name="random", method="random")
FEW = Table(
    name="few",
    title="Few",
    rows=(RANDOM, FREE, FEDMF),
    datasets=(Data("planted"),),
    metrics=(("full", "HR@10"),),
    settings=2,
    against="random",
)


def filling(table: Table, out: Path, docs: Path, **changes: Any) -> Filling:
    options: dict[str, Any] = {"seeds": 2, "published": docs, "publish": docs}
    return Filling(table, out, **options | changes)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Where another machine has published the table with one seed; its runs are not here."""
    place = tmp_path / "docs"
    place.mkdir()
    filling(FEW, tmp_path / "there", place, seeds=1).fill()
    shutil.rmtree(tmp_path / "there")
    return place


def done(results: Results, key: str) -> DoneCell:
    cell = results.cells[key]
    assert isinstance(cell, DoneCell), cell.status
    return cell


def runs(out: Path) -> list[str]:
    return sorted(path.parent.name[:11] for path in out.rglob("run.json"))


def test_a_fresh_clone_goes_on_and_publishing_loses_nothing(docs: Path, tmp_path: Path) -> None:
    stored = json.loads((docs / "table-few.json").read_text())
    said: list[str] = []
    results = filling(FEW, tmp_path / "here", docs, report=said.append).fill()
    assert runs(tmp_path / "here") == ["clean-seed1"]  # neither a search nor what stands there
    assert "published 3 finished cells stand as they were published" in said
    again = json.loads((docs / "table-few.json").read_text())
    assert again["cells"].items() >= stored["cells"].items()
    assert again["choices"] == stored["choices"]
    assert done(results, "fedmf | planted | clean | seed 1")


def test_another_folder_begins_anew(docs: Path, tmp_path: Path) -> None:
    filling(FEW, tmp_path / "anew", docs, seeds=1, published=None).fill()
    assert len(runs(tmp_path / "anew")) == 3


def test_what_the_definition_would_do_otherwise_is_run(docs: Path, tmp_path: Path) -> None:
    longer = replace(FEW, rows=(RANDOM, FREE, replace(FEDMF, rounds=6)))
    results = filling(longer, tmp_path / "here", docs, seeds=1).fill()
    assert runs(tmp_path / "here") == ["clean-seed0"]
    assert done(results, "fedmf | planted | clean | seed 0").rounds_run == 6


def test_an_old_run_here_does_not_hide_a_published_one(docs: Path, tmp_path: Path) -> None:
    shorter = replace(FEW, rows=(RANDOM, FREE, replace(FEDMF, rounds=2)))
    filling(shorter, tmp_path / "here", docs, seeds=1, publish=None).fill()
    before = runs(tmp_path / "here")
    results = filling(FEW, tmp_path / "here", docs, seeds=1).fill()
    assert runs(tmp_path / "here") == before
    assert done(results, "fedmf | planted | clean | seed 0").rounds_run == 4


def test_a_test_is_kept_with_its_runs(docs: Path, tmp_path: Path) -> None:
    def said() -> list[str]:
        text = (docs / "table-few.md").read_text()
        return [line for line in text.splitlines() if line.startswith("- planted, HR@10")]

    first = said()
    tests = json.loads((docs / "table-few.json").read_text())["tests"]
    assert tests["popularity | planted | HR@10"]["p"] < 1.0
    filling(FEW, tmp_path / "here", docs, seeds=1).fill()
    assert runs(tmp_path / "here") == []
    assert said() == first
    assert "not here" not in first[0]

    stored = json.loads((docs / "table-few.json").read_text())
    del stored["tests"]["popularity | planted | HR@10"]
    (docs / "table-few.json").write_text(json.dumps(stored))
    filling(FEW, tmp_path / "other", docs, seeds=1).fill()
    assert "not tested, because the runs are not here: popularity" in said()[0]


def test_a_test_of_some_seeds_says_of_how_many(tmp_path: Path) -> None:
    """A seed that ran elsewhere is missing in the test, and an old test of it is not forgotten."""
    out, results = tmp_path / "here", Results(path=tmp_path / "none.json", table="few")
    filled = filling(FEW, out, tmp_path, published=None, publish=None, seeds=3).fill()
    random, fedmf = (
        sorted((cell for cell in filled.done if cell.row == row), key=lambda cell: cell.seed)
        for row in ("random", "fedmf")
    )
    first = paired_test(results, out, "HR@10", random, fedmf[:1])
    assert first is not None
    assert first.runs == (fedmf[0].folder,)
    shutil.rmtree(out / fedmf[0].folder)
    assert paired_test(results, out, "HR@10", random, fedmf[:1]) == first
    part = paired_test(results, out, "HR@10", random, fedmf)
    assert part is not None
    assert part.runs == tuple(cell.folder for cell in fedmf[1:])
    assert part.p != first.p
    assert part_text(part, fedmf, random) == " by 2 of 3 seeds"
    assert part_text(part, fedmf[1:], random) == ""
    assert paired_test(results, out, "HR@10", random, fedmf[:1]) is None  # of other seeds


def test_a_row_of_one_run_is_tested_again_when_the_other_row_gets_seeds(tmp_path: Path) -> None:
    out, results = tmp_path / "here", Results(path=tmp_path / "none.json", table="few")
    filled = filling(FEW, out, tmp_path, published=None, publish=None, seeds=3).fill()
    popularity, fedmf = (
        sorted((cell for cell in filled.done if cell.row == row), key=lambda cell: cell.seed)
        for row in ("popularity", "fedmf")
    )
    first = paired_test(results, out, "HR@10", fedmf[:1], popularity)
    assert first is not None
    assert first.against == (fedmf[0].folder,)
    assert part_text(first, popularity, fedmf) == " by 1 of 3 seeds of fedmf"
    again = paired_test(results, out, "HR@10", fedmf, popularity)
    assert again is not None
    assert again.against == tuple(cell.folder for cell in fedmf)
    assert part_text(again, popularity, fedmf) == ""
    assert paired_test(results, tmp_path / "elsewhere", "HR@10", fedmf, popularity) == again


def test_a_second_seed_counts_though_the_other_row_then_has_fewer_in_the_test(
    tmp_path: Path,
) -> None:
    """One run against three is as many runs as two against two."""
    seeded = replace(FEDMF, name="other", settings=rates((0.1, 4.0), (0.1, 16.0)))
    few = replace(FEW, rows=(RANDOM, seeded, FEDMF))
    out, results = tmp_path / "here", Results(path=tmp_path / "none.json", table="few")
    filled = filling(few, out, tmp_path, published=None, publish=None, seeds=3).fill()
    other, fedmf = (
        sorted((cell for cell in filled.done if cell.row == row), key=lambda cell: cell.seed)
        for row in ("other", "fedmf")
    )
    first = paired_test(results, out, "HR@10", fedmf, other[:1])
    assert first is not None
    assert (len(first.runs), len(first.against)) == (1, 3)
    second = paired_test(results, out, "HR@10", fedmf, other[:2])
    assert second is not None
    assert (len(second.runs), len(second.against)) == (2, 2)
    assert part_text(second, other[:2], fedmf) == " by 2 of 3 seeds of fedmf"
    assert part_text(second, other, fedmf) == " by 2 of 3 seeds"  # the same of both rows


def test_all_seeds_of_a_row_have_one_setting(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, before = study_module.run, shutil.copytree(docs, tmp_path / "before")
    chosen = Results.read("few", docs / "table-few.json").choices["fedmf | planted | clean"].chosen
    assert chosen is not None
    wild_rate = (5.0, 20.0)[chosen]

    def wild(experiment: Any, *arguments: Any, **options: Any) -> Any:
        if experiment.seed == 1 and experiment.method.local.items.per_item == wild_rate:
            raise DivergedError("Not numbers.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(study_module, "run", wild)
    # a row whose name ends with the other's keeps its own choice
    named = replace(FEDMF, name="group fedmf", settings=rates((0.1, 4.0), (0.1, 16.0)))
    few = replace(FEW, rows=(*FEW.rows, named))
    results = filling(few, tmp_path / "here", docs).fill()
    assert done(results, "group fedmf | planted | clean | seed 0")
    sets = [done(results, f"fedmf | planted | clean | seed {seed}").sets for seed in (0, 1)]
    assert sets[0] == sets[1] == FEDMF.settings[1 - chosen]

    # a seed that was not asked for is not shown under the setting that was taken back
    only = "fedmf | planted | clean | seed 1"
    alone = filling(few, tmp_path / "alone", before, publish=None, only=(only,)).fill()
    assert done(alone, "fedmf | planted | clean | seed 1").sets == sets[1]
    assert alone.cells["fedmf | planted | clean | seed 0"].status == "not run yet"


def test_a_choice_taken_back_anywhere_is_taken_back_here(docs: Path, tmp_path: Path) -> None:
    place = "fedmf | planted | clean"
    published = Results.read("few", docs / "table-few.json")
    known = published.choices[place]
    assert known.chosen is not None
    beside = Results.read("more", tmp_path / "beside" / "table-more.json")  # it does not know yet
    beside.choices[place] = known
    beside.write()
    published.choices[place] = known.withdrawn().made()
    published.write()
    options: dict[str, Any] = {"reuse": [beside.path.parent], "only": "seed 0"}
    results = filling(FEW, tmp_path / "here", docs, **options).fill()
    assert results.choices[place] == published.choices[place]
    assert done(results, f"{place} | seed 0").sets == FEDMF.settings[1 - known.chosen]

    # what runs already under that choice, where it does not know yet, changes too
    here = Results.read("few", tmp_path / "here" / "table-few.json")
    here.choices[place] = known
    here.write()
    again = filling(FEW, tmp_path / "here", docs, **options).fill()
    assert again.choices[place].chosen == 1 - known.chosen


def test_a_run_that_is_finished_on_another_device_is_not_begun_again(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(FEW, FEDMF, FEW.datasets[0], "clean")
    chosen = Results.read("few", docs / "table-few.json").choices[place.key].chosen
    assert chosen is not None
    other = FEDMF.settings[1 - chosen]
    run = study_module.run
    experiment = place.experiment(other, 1)
    folder = RunFolder(tmp_path / "here" / place.folder(experiment))
    run(experiment, folder.path, keep_model=False)
    text = folder.experiment_file.read_text()
    folder.experiment_file.write_text(text.replace('device = "cpu"', 'device = "cuda"'))
    folder.write_checksums(folder.result_file.read_text())
    assert folder.experiment().device == "cuda"

    def wild(*arguments: Any, **options: Any) -> Any:
        raise DivergedError("Not numbers.")

    monkeypatch.setattr(study_module, "run", wild)  # the first choice; the next one is finished
    results = filling(FEW, tmp_path / "here", docs, only=("seed 1",)).fill()
    assert done(results, f"{place.key} | seed 1").sets == other


@cache
def defined(name: str) -> tuple[Table, Any]:
    """A published table as it is defined today, and what writes it."""
    if name == privacy_table.NAME:
        return privacy_table.the_table(), privacy_table.as_markdown
    return load_table(name), as_markdown


@cache
def published_in(path: Path) -> Results:
    """A results file, read once: nothing here writes to it."""
    return Results.read(path.stem.removeprefix("table-"), path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("table-*.json")), ids=lambda path: path.stem)
def test_published_cells_are_what_their_tables_define_today(path: Path, tmp_path: Path) -> None:
    table, _ = defined(path.stem.removeprefix("table-"))
    published = published_in(path)
    here = Filling(table, tmp_path, table.seeds, published=RESULTS)
    here.prepare()
    assert {cell.folder for cell in here.results.done} == {cell.folder for cell in published.done}
    for key, choice in here.results.choices.items():
        assert choice == published.choices[key]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("table-*.json")), ids=lambda path: path.stem)
def test_a_published_table_is_what_its_results_file_makes(path: Path, tmp_path: Path) -> None:
    results = published_in(path)
    assert results.text == path.read_text(encoding="utf-8")
    table, render = defined(results.table)
    text = render(table, results, tmp_path)
    assert text == path.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(RESULTS.glob("table-*.json")), ids=lambda path: path.stem)
def test_several_seeds_are_not_one_run_several_times(path: Path) -> None:
    table, _ = defined(path.stem.removeprefix("table-"))
    if table.split_seeds:
        pytest.skip("Seeds draw the split here, also for rows that draw nothing themselves.")
    published = published_in(path)
    for place in table.places:
        cells = published.done_of(place)
        numbers = {(cell.validation, *cell.metrics.values()) for cell in cells}
        alike = len(cells) > 1 and len(numbers) == 1
        assert alike == (place.key in CONVERGED and len(cells) > 1), f"{place.key}: is it seeded?"


def test_bytes_of_a_sum_are_those_of_both_directions(tmp_path: Path) -> None:
    asked = ("planted", "square")
    square = order_figures.measured({asked: order_figures.widths("planted")[asked]}, tmp_path)[0]
    items = prepare(order_figures.widths("planted")[asked]).split.train.n_items
    # I x I sums up; down the same, and the chosen numbers
    assert 2 * 4 * items**2 <= square.bytes_a_client < 2 * 4 * items**2 + 100


def test_the_other_published_tables_are_what_their_numbers_make() -> None:
    def read(name: str) -> str:
        return (RESULTS / name).read_text(encoding="utf-8")

    honest = honest_table.STORED.validate_json(read("honest-table.json"))
    assert honest_table.as_markdown(honest) == read("honest-table.md")
    rows = tune.ROWS.validate_json(read("tuning.json"))
    assert tune.as_markdown(rows) == read("tuning.md")
    figures = order_figures.Figures.model_validate_json(read("order-figures.json"))
    assert order_figures.as_markdown(figures) == read("order-figures.md")
    for study, name in ((cold_planted, "cold-planted"), (fusion_planted, "fusion-planted")):
        assert study.as_markdown(json.loads(read(f"{name}.json"))) == read(f"{name}.md")


def test_every_table_of_the_docs_is_there() -> None:
    text = (RESULTS.parent / "tables.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in table_names())


def test_a_cell_that_another_table_has_published_is_not_run_again(
    docs: Path, tmp_path: Path
) -> None:
    renamed = replace(FEDMF, name="matrix factorisation")
    beside = replace(FEW, name="beside", rows=(renamed,), against=None)
    results = filling(beside, tmp_path / "beside", docs, seeds=1).fill()
    there = Results.read("few", docs / "table-few.json")
    known = done(there, "fedmf | planted | clean | seed 0")
    taken = done(results, "matrix factorisation | planted | clean | seed 0")
    assert (taken.metrics, taken.sets) == (known.metrics, known.sets)
    assert taken.folder.endswith(known.folder.rpartition("-")[2])
    assert "matrix" in taken.folder
    assert not runs(tmp_path / "beside")

    more = replace(beside, name="more", metrics=(("full", "HR@10"), ("full", "NDCG@10")))
    filling(more, tmp_path / "more", docs, seeds=1).fill()  # shows what nobody has kept
    assert runs(tmp_path / "more") == ["clean-seed0"]


def test_no_more_seeds_of_another_table_are_taken_than_are_asked_for(
    docs: Path, tmp_path: Path
) -> None:
    filling(FEW, tmp_path / "two", docs, seeds=2).fill()
    beside = replace(FEW, name="beside", rows=(replace(FEDMF, name="other"),), against=None)
    results = filling(beside, tmp_path / "beside", docs, seeds=1).fill()
    assert {cell.seed for cell in Results.read("few", docs / "table-few.json").done} == {0, 1}
    assert {cell.seed for cell in results.done} == {0}
