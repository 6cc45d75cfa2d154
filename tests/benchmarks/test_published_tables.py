"""A published table goes on anywhere: what stands in its results file is not run again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tacit.benchmarks.tables.work as work_module
from tacit.benchmarks.tables import TABLES
from tacit.benchmarks.tables.cells import Place, experiment_of, folder_of
from tacit.benchmarks.tables.definition import Data, Row, Table, rates
from tacit.benchmarks.tables.fill import Filling
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.record import scan
from tacit.benchmarks.tables.search import withdraw
from tacit.benchmarks.tables.timing import Timing
from tacit.evaluation.ranking import DivergedError

RESULTS = Path(__file__).parents[2] / "docs" / "results"
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
    options["probe"] = lambda experiment, threads, clock: Timing(0.0, 0.01, 0.0)
    return Filling(table, out, **options | changes)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Where another machine has published the table with one seed; its runs are not here."""
    place = tmp_path / "docs"
    place.mkdir()
    filling(FEW, tmp_path / "there", place, seeds=1).fill()
    shutil.rmtree(tmp_path / "there")
    return place


def runs(out: Path) -> list[str]:
    return sorted(path.parent.name[:11] for path in out.rglob("run.json"))


def test_a_fresh_clone_goes_on_and_publishing_loses_nothing(docs: Path, tmp_path: Path) -> None:
    stored = json.loads((docs / "table-few.json").read_text())
    said: list[str] = []
    ledger = filling(FEW, tmp_path / "here", docs, report=said.append).fill()
    assert runs(tmp_path / "here") == ["clean-seed1"]  # neither a search nor what stands there
    assert "published 3 finished cells stand as they were published" in said
    again = json.loads((docs / "table-few.json").read_text())
    assert again["cells"].items() >= stored["cells"].items()
    assert again["choices"] == stored["choices"]
    assert ledger.cells["fedmf | planted | clean | seed 1"]["status"] == "done"


def test_another_folder_begins_anew(docs: Path, tmp_path: Path) -> None:
    filling(FEW, tmp_path / "anew", docs, seeds=1, published=None).fill()
    assert len(runs(tmp_path / "anew")) == 3


def test_what_the_definition_would_do_otherwise_is_run(docs: Path, tmp_path: Path) -> None:
    longer = replace(FEW, rows=(RANDOM, FREE, replace(FEDMF, rounds=6)))
    ledger = filling(longer, tmp_path / "here", docs, seeds=1).fill()
    assert runs(tmp_path / "here") == ["clean-seed0"]
    assert ledger.cells["fedmf | planted | clean | seed 0"]["rounds_run"] == 6


def test_an_old_run_here_does_not_hide_a_published_one(docs: Path, tmp_path: Path) -> None:
    shorter = replace(FEW, rows=(RANDOM, FREE, replace(FEDMF, rounds=2)))
    filling(shorter, tmp_path / "here", docs, seeds=1, publish=None).fill()
    before = runs(tmp_path / "here")
    ledger = filling(FEW, tmp_path / "here", docs, seeds=1).fill()
    assert runs(tmp_path / "here") == before
    assert ledger.cells["fedmf | planted | clean | seed 0"]["rounds_run"] == 4


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


def test_another_machines_timing_is_a_guess(docs: Path, tmp_path: Path) -> None:
    stored = json.loads((docs / "table-few.json").read_text())
    stored["timings"]["fedmf | planted"] = {
        "start": 0,
        "round": 5.0,
        "evaluation": 0,
        "how": "recorded",
    }
    (docs / "table-few.json").write_text(json.dumps(stored))
    here = filling(FEW, tmp_path / "here", docs)
    here.plan()
    assert here.ledger.timings["fedmf | planted"] == Timing(0.0, 0.01, 0.0)

    def late() -> float:
        return 1e9 if late.called else 0.0  # the tenth of the budget for probes is over

    late.called = False  # type: ignore[attr-defined]
    there = filling(FEW, tmp_path / "there", docs, clock=late)
    late.called = True  # type: ignore[attr-defined]
    there.plan()
    assert there.ledger.timings["fedmf | planted"].how == "published"
    assert (
        there.ledger.cells["fedmf | planted | clean | seed 1"]["status"]
        == "not run (about 0.0056 h)"
    )


def test_all_seeds_of_a_row_have_one_setting(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work_module.run
    chosen = Ledger.read("few", docs / "table-few.json").choices["fedmf | planted | clean"][
        "chosen"
    ]
    wild_rate = (5.0, 20.0)[chosen]

    def wild(experiment: Any, *arguments: Any, **options: Any) -> Any:
        if experiment.seed == 1 and experiment.method.local.items.per_item == wild_rate:
            raise DivergedError("Not numbers.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(work_module, "run", wild)
    # a row whose name ends with the other's keeps its own choice
    named = replace(FEDMF, name="group fedmf", settings=rates((0.1, 4.0), (0.1, 16.0)))
    few = replace(FEW, rows=(*FEW.rows, named))
    ledger = filling(few, tmp_path / "here", docs).fill()
    for key in ("fedmf | planted | clean | seed 1", "group fedmf | planted | clean | seed 0"):
        assert ledger.cells[key]["status"] == "done"
    assert ledger.cells["fedmf | planted | clean | seed 0"]["status"].startswith("not run (about")
    again = filling(few, tmp_path / "here", docs).fill()
    sets = [again.cells[f"fedmf | planted | clean | seed {seed}"]["sets"] for seed in (0, 1)]
    assert sets[0] == sets[1]


def test_a_choice_taken_back_anywhere_is_taken_back_here(docs: Path, tmp_path: Path) -> None:
    place = "fedmf | planted | clean"
    published = Ledger.read("few", docs / "table-few.json")
    first = published.choices[place]["chosen"]
    (tmp_path / "beside").mkdir()
    beside = Ledger("more", tmp_path / "beside" / "table-more.json")  # it does not know yet
    beside.choices[place] = json.loads(json.dumps(published.choices[place]))
    beside.write()
    withdraw(published.choices[place])
    published.choices[place]["chosen"] = 1 - first
    published.write()
    options: dict[str, Any] = {"lenders": [beside.path.parent], "only": "seed 0"}
    ledger = filling(FEW, tmp_path / "here", docs, **options).fill()
    assert ledger.choices[place] == published.choices[place]
    assert ledger.cells[f"{place} | seed 0"]["sets"] == list(FEDMF.settings[1 - first])

    # what runs already under that choice, where it does not know yet, changes too
    here = Ledger.read("few", tmp_path / "here" / "table-few.json")
    here.choices[place] = beside.choices[place]
    here.write()
    again = filling(FEW, tmp_path / "here", docs, **options).fill()
    assert again.choices[place]["chosen"] == 1 - first


def test_a_run_that_is_finished_on_another_device_is_not_begun_again(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(FEDMF, FEW.datasets[0], "clean")
    chosen = Ledger.read("few", docs / "table-few.json").choices[place.key]["chosen"]
    other = FEDMF.settings[1 - chosen]
    experiment = experiment_of(FEW, place, other, 1)
    folder = folder_of(tmp_path / "here", place, experiment)
    run = work_module.run
    run(experiment, folder.path, keep_model=False)
    text = folder.experiment_file.read_text()
    folder.experiment_file.write_text(text.replace('device = "cpu"', 'device = "cuda"'))
    folder.write_checksums(folder.result_file.read_text())
    assert folder.experiment().device == "cuda"

    def wild(*arguments: Any, **options: Any) -> Any:
        raise DivergedError("Not numbers.")

    monkeypatch.setattr(work_module, "run", wild)  # the first choice; the next one is finished
    ledger = filling(FEW, tmp_path / "here", docs, only="seed 1").fill()
    assert ledger.cells[f"{place.key} | seed 1"]["sets"] == list(other)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("table-*.json")), ids=lambda path: path.stem)
def test_published_cells_are_what_their_tables_define_today(path: Path, tmp_path: Path) -> None:
    table = TABLES[path.stem.removeprefix("table-")]
    published = Ledger.read(table.name, path)
    ledger = Ledger(table.name, tmp_path / path.name, choices=published.choices)
    scan(table, tmp_path, ledger, table.seeds, published)
    done = {key for key, record in published.cells.items() if record["status"] == "done"}
    assert set(ledger.cells) == done
