"""Tables re-made: the budget holds, finished cells are used again, and no choice sees the test."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tacit.benchmarks.tables import TABLES
from tacit.benchmarks.tables import search as search_module
from tacit.benchmarks.tables.cell_text import cell_text
from tacit.benchmarks.tables.cells import (
    Cell,
    Place,
    absent,
    digest,
    experiment_of,
    places_of,
)
from tacit.benchmarks.tables.definition import Data, Printed, Row, Table, rates
from tacit.benchmarks.tables.fill import Filling
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.markdown import as_markdown, unexplained
from tacit.benchmarks.tables.record import KINDS
from tacit.benchmarks.tables.search import best_of, choose
from tacit.benchmarks.tables.timing import Timing
from tacit.benchmarks.tables.warmth import warmth_lines
from tacit.engines.cohort import CohortEngine
from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.amounts import DASH
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.run import RunInterruptedError, Silent

HIT, GAIN = ("full", "HR@10"), ("full", "NDCG@10")
FEDMF = Row(
    "fedmf",
    "fedmf",
    settings=rates((0.1, 5.0), (0.1, 20.0)),
    rounds=4,
    search_rounds=2,
    evaluate_every=2,
)
POPULARITY = Row(
    "popularity",
    "popularity",
    rounds=1,
    search_rounds=1,
    evaluate_every=1,
    seeded=False,
    free=True,
)
FEW = Table(
    name="few",
    title="Few",
    rows=(FEDMF, POPULARITY),
    datasets=(Data("planted"),),
    metrics=(HIT, GAIN),
    settings=2,
    paper="pfedrec",
    printed={("fedmf", "planted", HIT): Printed(99.0)},
)


@dataclass
class Clock:
    """Stands still, except that a round takes `pace` seconds."""

    pace: float = 10.0
    now: float = 0.0
    stop_at: int = -1  # the round in all at which somebody presses Ctrl-C
    rounds: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now


class Moves(Silent):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def round(self, record: dict[str, Any], best: float | None) -> None:
        self.clock.now += self.clock.pace
        self.clock.rounds.append(record["round"])
        if len(self.clock.rounds) == self.clock.stop_at:
            raise KeyboardInterrupt


def filling(table: Table, out: Path, clock: Clock, **changes: Any) -> Filling:
    return Filling(
        table,
        out,
        **{"budget": 1000.0, "seeds": 2} | changes,
        watch=Moves(clock),
        clock=clock,
        probe=lambda experiment, threads, now: Timing(0.0, 10.0, 0.0),
    )


def states(ledger: Ledger) -> dict[str, str]:
    return {key: record["status"] for key, record in ledger.cells.items()}


def test_the_budget_holds_and_the_next_call_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    # popularity 10 s twice, fedmf 2 x 2 rounds of search and 4 of a run twice: 180 s of 196
    ledger = filling(FEW, tmp_path, clock, budget=200.0).fill()
    assert clock.now == 180.0
    assert states(ledger) == {
        "popularity | planted | paper | seed 0": "done",
        "popularity | planted | clean | seed 0": "done",
        "fedmf | planted | paper | seed 0": "done",
        "fedmf | planted | clean | seed 0": "done",
        "fedmf | planted | paper | seed 1": "not run (about 0.011 h)",
        "fedmf | planted | clean | seed 1": "not run (about 0.011 h)",
    }
    stored = json.loads((tmp_path / "table-few.json").read_text())
    assert stored["cells"] == ledger.cells
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    assert len(stamps) == 4

    again = filling(FEW, tmp_path, clock, budget=200.0).fill()
    assert clock.now == 180.0 + 2 * 40.0  # two runs, no search
    assert set(states(again).values()) == {"done"}
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert again.choices == ledger.choices

    filling(FEW, tmp_path, clock, budget=1.0).fill()  # finished cells cost nothing
    assert clock.now == 260.0


def test_the_same_experiment_in_two_tables_is_run_once(tmp_path: Path) -> None:
    clock, said = Clock(), []
    one = filling(FEW, tmp_path / "few", clock, seeds=1).fill()
    spent = clock.now
    other_name = replace(FEDMF, name="matrix factorisation")
    others = replace(FEDMF, name="others", settings=rates((0.1, 4.0), (0.1, 16.0)))
    more = replace(FEW, name="more", rows=(other_name, others), printed={})
    stale = Ledger("more", tmp_path / "more" / "table-more.json")
    stale.choices["matrix factorisation | planted | clean"] = {"digest": "old", "chosen": 1}
    stale.write()
    two = filling(
        more, tmp_path / "more", clock, seeds=2, report=said.append, lenders=[one.path.parent]
    )
    ledger = two.fill()
    assert set(states(ledger).values()) == {"done"}
    # four runs of the row that is new, with its two searches, and the second seed of the known one
    assert clock.now == spent + 2 * 2 * 20.0 + 4 * 40.0 + 2 * 40.0
    assert any(line.startswith("borrowed  2 finished cells") for line in said)
    for column in ("paper", "clean"):
        known = one.cells[f"fedmf | planted | {column} | seed 0"]
        taken = ledger.cells[f"matrix factorisation | planted | {column} | seed 0"]
        assert taken["metrics"] == known["metrics"]
        mark = ledger.choices[f"matrix factorisation | planted | {column}"]["digest"]
        assert mark == one.choices[f"fedmf | planted | {column}"]["digest"]
    assert not list(tmp_path.rglob("*.part"))


def test_first_seeds_come_first_and_cheap_rows_before_dear_ones(tmp_path: Path) -> None:
    said: list[str] = []
    few = filling(FEW, tmp_path, Clock(), budget=200.0, report=said.append)
    assert [cell.key for cell in few.plan()] == [
        "popularity | planted | paper | seed 0",
        "popularity | planted | clean | seed 0",
        "fedmf | planted | paper | seed 0",
        "fedmf | planted | clean | seed 0",
        "fedmf | planted | paper | seed 1",
        "fedmf | planted | clean | seed 1",
    ]
    assert said[0] == ("estimate  popularity | planted | paper | seed 0: about 10.0 s (measured)")
    assert said[-1] == (
        "plan      6 cells, 0 finished, 0 cannot run; the other 6 take about 4 min 20 s; "
        "4 fit the budget of 0.0555556 h"
    )
    assert not list(tmp_path.rglob("run.json"))


def test_a_run_that_is_slower_than_thought_is_stopped_and_goes_on(tmp_path: Path) -> None:
    clock = Clock(pace=1000.0)  # each round takes a hundred times what the probe said
    ledger = filling(FEW, tmp_path, clock, budget=3000.0, only="fedmf | planted | clean").fill()
    assert clock.now == 3000.0  # the third round of four passes the end at 2,940 s
    assert states(ledger)["fedmf | planted | clean | seed 0"].startswith("not run (about 0.0")
    assert len(ledger.choices["fedmf | planted | clean"]["tried"]) == 1  # the second was stopped
    assert states(ledger)["fedmf | planted | paper | seed 0"] == "not run (left out by --only)"

    clock.pace = 10.0
    later = filling(FEW, tmp_path, clock, only="fedmf | planted | clean").fill()
    assert clock.now == 3000.0 + 20.0 + 2 * 40.0
    assert states(later)["fedmf | planted | clean | seed 1"] == "done"


def test_two_workers_give_the_same_table(tmp_path: Path) -> None:
    one = filling(FEW, tmp_path / "one", Clock()).fill()
    two = Filling(FEW, tmp_path / "two", seeds=2, workers=2).fill()
    assert set(states(two).values()) == {"done"}
    for key, record in one.cells.items():
        assert two.cells[key]["metrics"] == record["metrics"], key
        assert two.cells[key]["sets"] == record["sets"]
    for key, note in one.choices.items():  # chosen once, by the first cell of each place
        assert [t["validation"] for t in two.choices[key]["tried"]] == [
            t["validation"] for t in note["tried"]
        ]


def test_a_row_that_there_is_no_time_to_time_says_so(tmp_path: Path) -> None:
    clock = Clock()

    def slow(experiment: Any, threads: int, now: Any) -> Timing:
        clock.now += 50.0
        return Timing(0.0, 10.0, 0.0)

    few = filling(FEW, tmp_path, clock, budget=200.0)
    few.probe = slow  # one probe is already more than the tenth of the budget that is for it
    few.plan()
    assert list(few.ledger.timings) == ["fedmf | planted"]
    assert (
        few.ledger.cells["popularity | planted | clean | seed 0"]["status"]
        == "not run (no time left to time it)"
    )


def test_a_guess_is_made_from_what_was_timed_and_never_from_a_guess(tmp_path: Path) -> None:
    from tacit.data.sources import SOURCES

    names = ("filmtrust", "amazon-video-10", "ml-1m")
    table = replace(FEW, rows=(FEDMF,), datasets=tuple(Data(name) for name in names), printed={})
    few = filling(table, tmp_path, Clock())
    few.probe = lambda experiment, threads, now: Timing(1.0, 100.0, 1.0)  # too long to repeat
    few.plan()
    small, large = (SOURCES[name].statistics for name in ("filmtrust", "ml-1m"))
    factor = large["interactions"] / small["interactions"]
    assert few.ledger.timings["fedmf | ml-1m"].round == pytest.approx(100.0 * factor)


def test_what_was_quick_anywhere_is_timed_again_elsewhere(tmp_path: Path) -> None:
    names = ("filmtrust", "amazon-video-10", "ml-1m")
    table = replace(FEW, rows=(FEDMF,), datasets=tuple(Data(name) for name in names), printed={})
    few = filling(table, tmp_path, Clock())
    # as a closed form whose cost grows with the cube of the items: 2,042, 7,957 and 3,706 of them
    rounds = {"filmtrust": 0.01, "amazon-video-10": 50.0, "ml-1m": 2.0}
    few.probe = lambda experiment, threads, now: Timing(0.0, rounds[experiment.data.name], 0.0)
    few.plan()
    assert few.ledger.timings["fedmf | ml-1m"] == Timing(0.0, 2.0, 0.0, "measured")


def test_ctrl_c_leaves_whole_files_and_the_same_command_continues(tmp_path: Path) -> None:
    clock = Clock(stop_at=7)  # in the run of the first fedmf cell, after popularity and its search
    with pytest.raises(
        RunInterruptedError, match=r"fedmf \| planted \| paper \| seed 0; give the same command"
    ):
        filling(FEW, tmp_path, clock).fill()
    stored = json.loads((tmp_path / "table-few.json").read_text())
    assert sum(cell["status"] == "done" for cell in stored["cells"].values()) == 2
    assert "chosen" in stored["choices"]["fedmf | planted | paper"]
    assert (tmp_path / "table-few.md").is_file()
    assert set(states(filling(FEW, tmp_path, clock).fill()).values()) == {"done"}


class Untouchable:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"somebody looked at {name} of the test part")


def test_no_choice_looks_at_the_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(experiment: Any) -> Prepared:
        prepared = prepare(experiment)
        split = replace(prepared.split, test=Untouchable())  # type: ignore[arg-type]
        return Prepared(prepared.dataset, split)

    monkeypatch.setattr(search_module, "prepare", blind)
    choices: dict[str, dict[str, Any]] = {}
    place = Place(FEDMF, FEW.datasets[0], "clean")
    setting = choose(FEW, place, choices, save=lambda: None)
    tried = choices[place.key]["tried"]
    values = [one["validation"] for one in tried]
    assert len(values) == len(FEDMF.settings)
    assert values[0] != values[1]
    assert setting == FEDMF.settings[values.index(max(values))]
    assert [tuple(one["sets"]) for one in tried] == list(FEDMF.settings)


def test_settings_are_chosen_before_a_cell_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tacit.benchmarks.tables.work as work_module

    few = filling(FEW, tmp_path, Clock(), seeds=1, only="fedmf")
    run, seen = work_module.run, []

    def checked(experiment: Any, out: Path, **options: Any) -> Any:
        column = "clean" if experiment.protocol.is_clean else "paper"
        note = few.ledger.choices[f"fedmf | planted | {column}"]
        rate = experiment.method.local.items.per_item
        assert f"local.items.per_item={rate}" in note["tried"][note["chosen"]]["sets"]
        seen.append(column)
        return run(experiment, out, **options)

    monkeypatch.setattr(work_module, "run", checked)
    few.fill()
    assert seen == ["paper", "clean"]


def test_a_choice_that_diverges_in_the_longer_run_makes_room_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tacit.benchmarks.tables.work as work_module

    run, seen = work_module.run, []

    def wild(experiment: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(experiment.method.local.items.per_item)
        if len(seen) == 1:
            raise DivergedError("Not numbers.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(work_module, "run", wild)
    only = "fedmf | planted | clean"
    ledger = filling(FEW, tmp_path, Clock(), seeds=1, only=only).fill()
    assert sorted(seen) == [5.0, 20.0]
    assert ledger.cells[f"{only} | seed 0"]["status"] == "done"
    tried = ledger.choices[only]["tried"]
    assert sum("before_it_diverged" in one for one in tried) == 1
    assert as_markdown(FEW, ledger, 1, [])


@pytest.mark.parametrize("after", [1, 2], ids=["in the search", "in the run"])
def test_a_gpu_without_room_is_no_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    play = CohortEngine.round

    def cramped(engine: Any, algorithm: Any, train: Any, state: Any, *rest: Any) -> None:
        if state.round_number == after:
            raise torch.OutOfMemoryError("Tried to allocate 22.77 GiB")
        play(engine, algorithm, train, state, *rest)

    cell = "fedmf | planted | clean | seed 0"
    with monkeypatch.context() as patch:
        patch.setattr(CohortEngine, "round", cramped)
        ledger = filling(FEW, tmp_path, Clock(), seeds=1, only="clean").fill()
    assert states(ledger)[cell].startswith("not run (The memory of cpu ran out")
    assert states(ledger)["popularity | planted | clean | seed 0"] == "done"  # others go on
    tried = ledger.choices.get("fedmf | planted | clean", {"tried": []})["tried"]
    assert [one["validation"] is None for one in tried] == [False] * (2 if after == 2 else 0)
    again = filling(FEW, tmp_path, Clock(), seeds=1, only="clean").fill()
    assert states(again)[cell] == "done"


def test_a_changed_definition_begins_anew(tmp_path: Path) -> None:
    filling(FEW, tmp_path, Clock(), seeds=1, only="clean").fill()
    longer = replace(FEW, rows=(replace(FEDMF, rounds=6), POPULARITY))
    clock = Clock()
    ledger = filling(longer, tmp_path, clock, seeds=1, only="clean").fill()
    assert ledger.cells["fedmf | planted | clean | seed 0"]["rounds_run"] == 6
    assert clock.now == 60.0  # the search is the same, popularity too


def test_what_cannot_run_is_written_with_its_reason(tmp_path: Path) -> None:
    rows = (
        replace(FEDMF, name="nobody", method="no_such"),
        replace(FEDMF, name="wrong", settings=(("local.modle.rate=1",), ("local.model.rate=2",))),
        replace(FEDMF, name="wild", settings=rates((1e15, 1e10), (1e16, 1e10))),
    )
    table = replace(FEW, rows=rows, printed={}, paper=None)
    found = states(filling(table, tmp_path, Clock(), seeds=1).fill())
    assert found["nobody | planted | clean | seed 0"] == "not run (no such method here: no_such)"
    assert found["wrong | planted | clean | seed 0"].startswith("not run (Cannot set 'local.modle")
    assert found["wild | planted | clean | seed 0"].startswith("not run (Every setting diverged")
    text = (tmp_path / "table-few.md").read_text()
    assert "| nobody | not run (no such method here: no_such) |" in text


def made_up(percent: float, column: str = "paper") -> dict[str, Any]:
    both = {"full HR@10": percent / 100, "full NDCG@10": 0.0}
    reference = {"popularity": both, "chance": both}
    return {"status": "done", "column": column, "metrics": both, "reference": reference}


def test_reasons_are_shown_only_far_from_print(tmp_path: Path) -> None:
    reason = "a reason in words"
    table = replace(FEW, why={("fedmf", "planted", "paper"): reason}, tolerance=2.0)
    place = Place(FEDMF, FEW.datasets[0], "paper")
    ledger = Ledger("few", tmp_path / "few.json")
    for percent, far in ((97.5, False), (96.5, True)):  # printed is 99
        ledger.cells = {Cell(place, 0).key: made_up(percent)}
        assert (reason in as_markdown(table, ledger, 1, [])) == far
        assert unexplained(table, ledger) == []
        bare = unexplained(replace(table, why={}), ledger)
        assert bare == (["fedmf | planted | paper: HR@10 full"] if far else [])
    ledger.cells[Cell(place, 1).key] = made_up(98.5)
    assert cell_text(ledger, place, HIT) == "97.50 ± 1.41 (2)"
    # Student's t with one degree of freedom: 12.71 · 1.41 / √2
    assert cell_text(ledger, place, HIT, interval=True) == "97.50 ± 12.71 (2)"
    clean = replace(place, column="clean")
    ledger.cells |= {Cell(clean, n).key: made_up(value) for n, value in enumerate((96.5, 98.5))}
    plain = replace(FEW, paper=None, printed={})
    assert "97.50 ± 1.41 (2)" in as_markdown(plain, ledger, 2, [])
    drawn = as_markdown(replace(plain, split_seeds=True), ledger, 2, [])
    assert "97.50 ± 12.71 (2)" in drawn
    assert "95 % interval" in drawn
    ledger.cells = {Cell(place, 0).key: {"status": "not run (about 3 h)"}}
    assert cell_text(ledger, place, HIT) == "not run (about 3 h)"
    assert unexplained(table, ledger) == []


def test_warm_and_unseen_test_items_stand_apart_and_sum_to_the_whole(tmp_path: Path) -> None:
    place = Place(FEDMF, FEW.datasets[0], "clean")
    record = made_up(40.0, "clean") | {
        "breakdown": {
            "warm": {"held_out": 3, "adds": {"full HR@10": 0.3, "full NDCG@10": 0.0}},
            "unseen": {"held_out": 2, "adds": {"full HR@10": 0.1, "full NDCG@10": 0.0}},
        }
    }
    ledger = Ledger("few", tmp_path / "few.json", cells={Cell(place, 0).key: record})
    asked = replace(FEW, warmth=True)
    text = as_markdown(asked, ledger, 1, [])
    assert (
        "| method | metric | pfedrec, warm | pfedrec, unseen | clean, warm | clean, unseen |"
        in text
    )
    assert f"| fedmf | HR@10 full | {DASH} | {DASH} | 30.00 (1) | 10.00 (1) |" in text
    assert "Unseen are 2 of 5 under clean." in text
    assert "warm" not in as_markdown(FEW, ledger, 1, [])
    assert warmth_lines(asked, FEW.datasets[0], Ledger("few", tmp_path / "few.json")) == []

    ledger = filling(asked, tmp_path, Clock(), seeds=1, only="clean").fill()
    for record in ledger.cells.values():
        if record["status"] == "done":
            adds = [record["breakdown"][kind]["adds"] for kind in KINDS]
            whole = sum(part.get("full HR@10", 0.0) for part in adds)
            assert whole == pytest.approx(record["metrics"]["full HR@10"])
    text = (tmp_path / "table-few.md").read_text()
    assert "Every test item is in somebody's train." in text  # so is all of the planted data


def test_the_sentence_about_one_row_comes_from_the_numbers(tmp_path: Path) -> None:
    random = replace(POPULARITY, name="random", method="random")
    rows = (random, POPULARITY, replace(POPULARITY, name="gone", method="gone"))
    table = replace(FEW, rows=rows, printed={}, paper=None, against="random")
    filling(table, tmp_path, Clock(), seeds=1).fill()
    text = (tmp_path / "table-few.md").read_text()
    said = [line for line in text.splitlines() if line.startswith("- planted")]
    assert said[0].startswith("- planted, HR@10: popularity (")
    assert "central) is above random (" in said[0]
    assert said[0].endswith("No federated method is above it.")
    assert said[-1] == "- planted: not in this comparison, because not run: gone."


def test_publishing_writes_the_same_files_elsewhere(tmp_path: Path) -> None:
    place = tmp_path / "docs"
    with pytest.raises(TacitError, match="no folder"):
        filling(FEW, tmp_path, Clock(), publish=place)
    place.mkdir()
    filling(FEW, tmp_path / "out", Clock(), seeds=1, only="popularity", publish=place).fill()
    for name in ("table-few.md", "table-few.json"):
        assert (place / name).read_text() == (tmp_path / "out" / name).read_text()
    assert sorted(path.name for path in place.iterdir()) == ["table-few.json", "table-few.md"]
    assert str(tmp_path) not in (place / "table-few.json").read_text()


def test_ties_go_to_the_first_and_all_diverged_is_nobody() -> None:
    assert best_of([{"validation": 0.2}, {"validation": 0.2}]) == 0
    assert best_of([{"validation": None}]) is None


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_rows_with_noise_say_that_nothing_is_guaranteed(table: Table) -> None:
    for row in table.rows:
        built = resolve(row.method, plugins=row.plugins, sets=row.sets).method
        links = getattr(built, "channel", ())
        noisy = any("noise" in link.gives for link in links) or getattr(built, "laplace", 0)
        assert bool(noisy) == ("(no guarantee)" in row.name), row.name


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_row_of_a_real_table_tries_as_many_settings(table: Table) -> None:
    ablation = all(row.free for row in table.rows)  # every row has the same fixed settings
    assert table.settings == 1 if ablation else 4 <= table.settings <= 6
    nothing_to_choose = ("popularity", "random", "unseen_first", "mean_profile")
    for row in table.rows:
        if row.free:
            assert ablation or row.method in nothing_to_choose
        else:
            for tried in (row.settings, *(settings for _, settings in row.settings_on)):
                assert len(set(tried)) == table.settings, row.name
            assert {name for name, _ in row.settings_on} <= {data.name for data in table.datasets}
        assert row.search_rounds <= row.rounds
        shorter = row.search_rounds < row.rounds
        assert not shorter or row.search_rounds % row.evaluate_every == 0, row.name


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_setting_of_a_real_table_exists_and_differs(table: Table) -> None:
    for place in places_of(table):
        assert absent(place.row) is None
        tried = [experiment_of(table, place, s, 0) for s in place.settings]
        assert len({digest([one]) for one in tried}) == len(place.settings), place.key
        expected = "clean" if place.column == "clean" else table.paper
        assert {one.protocol.name for one in tried} == {expected}


def test_both_columns_hold_out_the_same_items_where_one_is_set_beside_the_other() -> None:
    for table in TABLES.values():
        for data in table.datasets:
            if table.columns_of(data) == ("paper", "clean"):
                row = table.rows[0]
                paper, clean = (
                    experiment_of(table, Place(row, data, column), row.settings[0], 0)
                    for column in ("paper", "clean")
                )
                assert paper.protocol.split == clean.protocol.split
