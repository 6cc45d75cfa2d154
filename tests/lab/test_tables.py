"""Tables made again: the budget holds, finished cells are reused, and no choice sees the test."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lab import fill as fill_module
from lab.definition import Data, Overrides, Place, Published, Row, Table, load_table, table_names
from lab.fill import Filling, TryStep
from lab.render import as_markdown, cell_text, seen_unseen_lines
from lab.results import KINDS, Cell, DoneCell, References, Results, Share, Shares, undone
from tacit.core.optim import Sgd
from tacit.core.types import Task
from tacit.engines.cohort import CohortEngine
from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.amounts import DASH
from tacit.experiment.callbacks import Callback
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.run import RunInterruptedError
from tacit.study import runner as runner_module
from tacit.study import search as search_module
from tacit.study import study as study_module
from tacit.study.runner import OutOfTimeError
from tacit.study.search import Choice, Tried, search
from tacit.study.study import digest

TABLES = {name: load_table(name) for name in table_names()}


def rates(*pairs: tuple[float, float]) -> tuple[Overrides, ...]:
    """Settings of methods that step a model and items."""
    fields = ("local.model.rate={0}", "local.items.rate={0}", "local.items.per_item={1}")
    return tuple(tuple(field.format(*pair) for field in fields) for pair in pairs)


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
    published={("fedmf", "planted", HIT): Published(99.0)},
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


class Moves(Callback):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def round(self, number: int, loss: float | None) -> None:
        self.clock.now += self.clock.pace
        self.clock.rounds.append(number)
        if len(self.clock.rounds) == self.clock.stop_at:
            raise KeyboardInterrupt


def filling(table: Table, out: Path, clock: Clock, **changes: Any) -> Filling:
    options: dict[str, Any] = {"budget": 1000.0, "seeds": 2} | changes
    return Filling(table, out, **options, callbacks=Moves(clock), clock=clock)


def place_of(table: Table, row: Row = FEDMF, column: Any = "clean") -> Place:
    return Place(table, row, table.datasets[0], column)


def states(results: Results) -> dict[str, str]:
    return {key: cell.status for key, cell in results.cells.items()}


def done(results: Results, key: str) -> DoneCell:
    cell = results.cells[key]
    assert isinstance(cell, DoneCell)
    return cell


def test_the_budget_holds_and_the_next_call_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    # fedmf has 2 x 2 rounds of search and 4 of a run under both protocols, 160 s, popularity 20 s;
    # what is begun at 180 s is stopped at 190 s, after a round
    results = filling(FEW, tmp_path, clock, budget=189.0).fill()
    assert clock.now == 190.0
    assert states(results) == {
        "fedmf | planted | paper | seed 0": "done",
        "fedmf | planted | paper | seed 1": "not run yet (The budget ended after round 1)",
        "fedmf | planted | clean | seed 0": "done",
        "fedmf | planted | clean | seed 1": "not run yet",
        "popularity | planted | paper | seed 0": "done",
        "popularity | planted | clean | seed 0": "done",
    }
    stored = json.loads((tmp_path / "table-few.json").read_text())
    assert {key: cell["status"] for key, cell in stored["cells"].items()} == states(results)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    assert len(stamps) == 4

    again = filling(FEW, tmp_path, clock, budget=200.0).fill()
    assert clock.now == 190.0 + 2 * 40.0  # two runs, no search; too short for a checkpoint
    assert set(states(again).values()) == {"done"}
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert again.choices == results.choices

    filling(FEW, tmp_path, clock, budget=1.0).fill()  # finished cells cost nothing
    assert clock.now == 270.0


def test_the_same_experiment_in_two_tables_is_run_once(tmp_path: Path) -> None:
    clock = Clock()
    one = filling(FEW, tmp_path / "few", clock, seeds=1).fill()
    spent = clock.now
    other_name = replace(FEDMF, name="matrix factorisation")
    others = replace(FEDMF, name="others", settings=rates((0.1, 4.0), (0.1, 16.0)))
    more = replace(FEW, name="more", rows=(other_name, others), published={})
    stale = Results.read("more", tmp_path / "more" / "table-more.json")
    old = Choice(digest="old", by="validation", chosen=1)
    stale.choices["matrix factorisation | planted | clean"] = old
    stale.write()
    two = filling(more, tmp_path / "more", clock, seeds=2, reuse=[one.path.parent])
    results = two.fill()
    assert set(states(results).values()) == {"done"}
    # four runs of the row that is new, with its two searches, and the second seed of the known one
    assert clock.now == spent + 2 * 2 * 20.0 + 4 * 40.0 + 2 * 40.0
    for column in ("paper", "clean"):
        known = done(one, f"fedmf | planted | {column} | seed 0")
        taken = done(results, f"matrix factorisation | planted | {column} | seed 0")
        assert taken.metrics == known.metrics
        mark = results.choices[f"matrix factorisation | planted | {column}"].digest
        assert mark == one.choices[f"fedmf | planted | {column}"].digest
    assert not list(tmp_path.rglob("*.part"))


def test_first_seeds_come_first_and_the_plan_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    filling(FEW, tmp_path, Clock(), report=said.append).fill()
    assert said[0] == "plan      6 cells, 0 finished, 0 cannot run; 6 are to be run"
    new = list(dict.fromkeys(line for line in said if line.startswith("cell ")))
    assert [line.removeprefix("cell      ").removesuffix(": done") for line in new] == [
        "fedmf | planted | paper | seed 0",
        "fedmf | planted | clean | seed 0",
        "popularity | planted | paper | seed 0",
        "popularity | planted | clean | seed 0",
        "fedmf | planted | paper | seed 1",
        "fedmf | planted | clean | seed 1",
    ]


def test_a_search_that_is_stopped_at_the_budget_goes_on(tmp_path: Path) -> None:
    clock = Clock(pace=1000.0)
    results = filling(FEW, tmp_path, clock, budget=2500.0, only=("fedmf | planted | clean",)).fill()
    assert clock.now == 3000.0  # the first round of the second setting passes the end
    assert states(results)["fedmf | planted | clean | seed 0"].startswith("not run yet (The budget")
    assert len(results.choices["fedmf | planted | clean"].tried) == 1
    assert states(results)["fedmf | planted | paper | seed 0"] == "not run (left out by --only)"

    clock.pace = 10.0
    later = filling(FEW, tmp_path, clock, only=("fedmf | planted | clean",)).fill()
    assert clock.now == 3000.0 + 20.0 + 2 * 40.0
    assert states(later)["fedmf | planted | clean | seed 1"] == "done"


def test_only_takes_several_texts_and_each_begins_at_a_word(tmp_path: Path) -> None:
    asked = ("popularity | planted | paper", "mf | planted", "planted | clean | seed 1")
    results = filling(FEW, tmp_path, Clock(), only=asked).fill()
    done = {key for key, state in states(results).items() if state == "done"}
    assert done == {
        "popularity | planted | paper | seed 0",
        "fedmf | planted | clean | seed 1",
    }
    with pytest.raises(TacitError, match="'mf' or 'nothing'"):
        filling(FEW, tmp_path / "none", Clock(), only=("mf", "nothing")).fill()


@pytest.mark.slow  # the same without processes is the next test
def test_two_workers_give_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both seeds in the same two processes: starting others for each is nothing of a table's."""
    one = filling(FEW, tmp_path / "one", Clock()).fill()
    with runner_module.process_pool(2) as pool:
        monkeypatch.setattr(runner_module, "process_pool", lambda workers: nullcontext(pool))
        two = Filling(FEW, tmp_path / "two", seeds=2, workers=2).fill()
    assert set(states(two).values()) == {"done"}
    for key in one.cells:
        assert done(two, key).metrics == done(one, key).metrics, key
        assert done(two, key).sets == done(one, key).sets
    for key, choice in one.choices.items():  # chosen once, by the first job of each place
        assert [t.validation for t in two.choices[key].tried] == [
            t.validation for t in choice.tried
        ]


def out_of_order(few: Filling) -> Results:
    """Begins all that can be begun, ends it from behind, and so on."""
    few.prepare()
    jobs = few._jobs()
    while True:
        begun = list(iter(lambda: next(jobs, None), None))
        if not begun:
            return few.results
        for job in reversed(begun):
            assert job is not None
            few._absorb(job, job.do(Callback()))


def test_steps_that_end_in_another_order_give_the_same_table(tmp_path: Path) -> None:
    one = filling(FEW, tmp_path / "one", Clock()).fill()
    other = out_of_order(filling(FEW, tmp_path / "other", Clock()))
    assert states(other) == states(one)
    for key in one.cells:
        assert done(other, key).metrics == done(one, key).metrics, key
    for key, choice in one.choices.items():
        assert [t.sets for t in other.choices[key].tried] == [t.sets for t in choice.tried]
        assert other.choices[key].chosen == choice.chosen


def test_two_seeds_that_diverge_take_one_choice_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = study_module.run, []

    def wild(experiment: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(experiment.method.local.items.per_item)
        if seen[-1] == seen[0]:
            raise DivergedError("Not numbers.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(study_module, "run", wild)
    only = "fedmf | planted | clean"
    results = out_of_order(filling(FEW, tmp_path, Clock(), only=(only,)))
    assert seen[:2] == [seen[0]] * 2  # both were under way
    assert sorted(set(seen)) == [5.0, 20.0]
    assert [states(results)[f"{only} | seed {seed}"] for seed in (0, 1)] == ["done", "done"]
    withdrawn = [one.before_it_diverged is not None for one in results.choices[only].tried]
    assert sum(withdrawn) == 1


def test_ctrl_c_leaves_whole_files_and_the_same_command_continues(tmp_path: Path) -> None:
    clock = Clock(stop_at=15)  # in the run of the second fedmf cell, after its search
    with pytest.raises(
        RunInterruptedError, match=r"fedmf \| planted \| clean \| seed 0; give the same command"
    ):
        filling(FEW, tmp_path, clock).fill()
    stored = json.loads((tmp_path / "table-few.json").read_text())
    assert sum(cell["status"] == "done" for cell in stored["cells"].values()) == 1
    assert "chosen" in stored["choices"]["fedmf | planted | clean"]
    assert (tmp_path / "table-few.md").is_file()
    assert set(states(filling(FEW, tmp_path, clock).fill()).values()) == {"done"}


class Untouchable:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"somebody looked at {name} of the test part")


def test_rows_without_an_engine_for_a_gpu_run_on_the_cpu() -> None:
    """Where the others run on one, and the definition stays the same."""
    there = replace(FEW, device="cuda")
    for row, device in ((FEDMF, "cuda"), (POPULARITY, "cpu")):
        setting = row.settings[0]
        assert place_of(there, row).experiment(setting, 0).device == device
        assert place_of(FEW, row).experiment(setting, 0).device == "cpu"


def test_no_choice_looks_at_the_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(experiment: Any) -> Prepared:
        prepared = prepare(experiment)
        split = replace(prepared.split, test=Untouchable())  # type: ignore[arg-type]
        return Prepared(prepared.dataset, split)

    monkeypatch.setattr(search_module, "prepare", blind)
    place = place_of(FEW)
    choice = search({s: place.experiment(s, 0, search=True) for s in place.settings})
    values = [one.validation for one in choice.tried]
    assert len(values) == len(FEDMF.settings)
    assert values[0] != values[1]
    assert choice.chosen == values.index(max(v for v in values if v is not None))
    assert [one.sets for one in choice.tried] == list(FEDMF.settings)

    monkeypatch.setattr(fill_module, "_prepared", lambda asked: blind(asked.experiment()))
    steps = [TryStep(place, 0, s, 1, number) for number, s in enumerate(place.settings)]
    tried = [step.do(Callback()).tried for step in steps]
    assert [one.validation for one in tried if one is not None] == values


def test_settings_are_chosen_before_a_cell_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = filling(FEW, tmp_path, Clock(), seeds=1, only=("fedmf",))
    run, seen = study_module.run, []

    def checked(experiment: Any, out: Path, **options: Any) -> Any:
        column = "clean" if experiment.protocol.is_clean else "paper"
        choice = few.results.choices[f"fedmf | planted | {column}"]
        rate = experiment.method.local.items.per_item
        assert choice.chosen is not None
        assert f"local.items.per_item={rate}" in choice.tried[choice.chosen].sets
        seen.append(column)
        return run(experiment, out, **options)

    monkeypatch.setattr(study_module, "run", checked)
    few.fill()
    assert seen == ["paper", "clean"]


def test_a_choice_that_diverges_in_the_longer_run_makes_room_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = study_module.run, []

    def wild(experiment: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(experiment.method.local.items.per_item)
        if len(seen) == 1:
            raise DivergedError("Not numbers.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(study_module, "run", wild)
    only = "fedmf | planted | clean"
    results = filling(FEW, tmp_path, Clock(), seeds=1, only=(only,)).fill()
    assert sorted(seen) == [5.0, 20.0]
    assert states(results)[f"{only} | seed 0"] == "done"
    tried = results.choices[only].tried
    assert sum(one.before_it_diverged is not None for one in tried) == 1
    assert Results.read("few", results.path).choices == results.choices
    assert as_markdown(FEW, results, tmp_path)


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
        results = filling(FEW, tmp_path, Clock(), seeds=1, only=("clean",)).fill()
    assert states(results)[cell].startswith("not run (The memory of cpu ran out")
    assert states(results)["popularity | planted | clean | seed 0"] == "done"  # others go on
    choice = results.choices.get("fedmf | planted | clean")
    tried = choice.tried if choice else ()
    assert [one.validation is None for one in tried] == [False] * (2 if after == 2 else 0)
    again = filling(FEW, tmp_path, Clock(), seeds=1, only=("clean",)).fill()
    assert states(again)[cell] == "done"


def test_seeds_beyond_those_asked_for_stay_and_are_said(tmp_path: Path) -> None:
    filling(FEW, tmp_path, Clock(), seeds=2, only=("fedmf | planted | clean",)).fill()
    again = filling(FEW, tmp_path, Clock(), seeds=1, only=("clean",))
    again.fill()
    page = again.markdown_file.read_text(encoding="utf-8")
    assert "seeds 0 to 0, of some rows up to 1. " in page


def test_a_changed_definition_begins_anew(tmp_path: Path) -> None:
    filling(FEW, tmp_path, Clock(), seeds=1, only=("clean",)).fill()
    longer = replace(FEW, rows=(replace(FEDMF, rounds=6), POPULARITY))
    clock = Clock()
    results = filling(longer, tmp_path, clock, seeds=1, only=("clean",)).fill()
    assert done(results, "fedmf | planted | clean | seed 0").rounds_run == 6
    assert clock.now == 60.0  # the search is the same, popularity too


def test_what_cannot_run_is_written_with_its_reason(tmp_path: Path) -> None:
    rows = (
        replace(FEDMF, name="nobody", method="no_such"),
        replace(FEDMF, name="wrong", settings=(("local.modle.rate=1",), ("local.model.rate=2",))),
        replace(FEDMF, name="wild", settings=rates((1e15, 1e10), (1e16, 1e10))),
    )
    table = replace(FEW, rows=rows, published={}, paper=None)
    found = states(filling(table, tmp_path, Clock(), seeds=1).fill())
    assert found["nobody | planted | clean | seed 0"] == "not run (no such method here: no_such)"
    assert found["wrong | planted | clean | seed 0"].startswith("not run (Cannot set 'local.modle")
    assert found["wild | planted | clean | seed 0"].startswith("not run (Every setting diverged")
    text = (tmp_path / "table-few.md").read_text()
    assert "| nobody | not run (no such method here: no_such) |" in text


def test_where_every_setting_diverged_nothing_is_to_be_run_the_next_time(tmp_path: Path) -> None:
    wild = replace(FEDMF, name="wild", settings=rates((1e15, 1e10), (1e16, 1e10)))
    table = replace(FEW, rows=(wild, POPULARITY), published={}, paper=None)
    first = filling(table, tmp_path, Clock()).fill()
    said: list[str] = []
    clock = Clock()
    again = filling(table, tmp_path, clock, report=said.append).fill()
    assert clock.rounds == []
    assert states(again) == states(first)
    for seed in (0, 1):
        status = states(again)[f"wild | planted | clean | seed {seed}"]
        assert status.startswith("not run (Every setting diverged")
    assert "plan      3 cells, 1 finished, 2 cannot run; 0 are to be run" in said
    one = filling(table, tmp_path, Clock(), only=("wild | planted | clean | seed 1",)).fill()
    assert states(one)["wild | planted | clean | seed 0"] == "not run (left out by --only)"
    assert states(one)["wild | planted | clean | seed 1"].startswith("not run (Every setting")


@pytest.mark.parametrize("late", ["finished", "stopped"])
def test_a_late_end_of_a_setting_taken_back_leaves_the_reason(
    late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = study_module.run

    def wild(experiment: Any, *arguments: Any, **options: Any) -> Any:
        if experiment.seed == 1:
            raise DivergedError("Not numbers.")
        if late == "stopped":
            raise OutOfTimeError("The budget ended after round 1.")
        return run(experiment, *arguments, **options)

    monkeypatch.setattr(study_module, "run", wild)
    only = "fedmf | planted | clean"
    few = filling(FEW, tmp_path, Clock(), only=(only,))
    tried = tuple(
        Tried(sets=tuple(sets), validation=value, round=1, stopped=None, seconds=0.0)
        for sets, value in zip(FEDMF.settings, (0.5, None), strict=True)
    )
    choice = Choice(digest=place_of(FEW).digest, by="validation", tried=tried, chosen=0)
    few.results.choices[only] = choice
    results = out_of_order(few)  # seed 1 ends first, and nothing is left to choose
    assert results.choices[only].tried[0].before_it_diverged == 0.5
    for seed in (0, 1):
        assert states(results)[f"{only} | seed {seed}"].startswith("not run (Every setting")


def made_up(place: Place, seed: int, percent: float, **more: Any) -> DoneCell:
    both = {"full HR@10": percent / 100, "full NDCG@10": 0.0}
    return DoneCell(
        row=place.row.name,
        dataset=place.data.name,
        column=place.column,
        seed=seed,
        protocol="clean",
        split="by time",
        sets=(),
        rounds_run=4,
        selected_round=4,
        validation=0.5,
        metrics=both,
        reference=References(popularity=both, chance=both),
        users=300,
        masked_test_items=0,
        engine="loop",
        seconds=1.0,
        versions={},
        folder=f"runs/{place.column}-seed{seed}-0123456789",
        **more,
    )


def with_cells(table: Table, cells: dict[str, DoneCell | Cell], seeds: int = 1) -> Results:
    return Results(path=Path("few.json"), table=table.name, seeds=seeds, cells=cells)


def test_a_number_stands_with_its_deviation_or_its_interval(tmp_path: Path) -> None:
    place = place_of(FEW, column="paper")
    cells: dict[str, DoneCell | Cell] = {place.cell(0): made_up(place, 0, 96.5)}
    cells[place.cell(1)] = made_up(place, 1, 98.5)
    assert cell_text(with_cells(FEW, cells), place, HIT) == "97.50 ± 1.41 (2)"
    # Student's t with one degree of freedom: 12.71 · 1.41 / √2
    text = cell_text(with_cells(FEW, cells), place, HIT, interval=True)
    assert text == "97.50 ± 12.71 (2)"
    plain = replace(FEW, paper=None, published={})
    clean = place_of(plain)
    two = {clean.cell(n): made_up(clean, n, value) for n, value in enumerate((96.5, 98.5))}
    assert "97.50 ± 1.41 (2)" in as_markdown(plain, with_cells(plain, {**two}, 2), tmp_path)
    split = replace(plain, split_seeds=True)
    drawn = as_markdown(split, with_cells(split, {**two}, 2), tmp_path)
    assert "97.50 ± 12.71 (2)" in drawn
    assert "95 % interval" in drawn
    beside = as_markdown(replace(FEW, split_seeds=True), with_cells(FEW, cells, 2), tmp_path)
    assert "97.50 ± 12.71 (2)" in beside  # where something is printed, too
    assert "1.41" not in beside
    left = with_cells(FEW, {place.cell(0): undone(place, 0, "not run yet")})
    assert cell_text(left, place, HIT) == "not run yet"


def test_a_page_says_how_long_runs_are_and_where_nothing_told_settings_apart(
    tmp_path: Path,
) -> None:
    row = replace(FEDMF, rounds=40, rounds_on=(("planted", 90),), search_rounds=10)
    table = replace(FEW, rows=(row, POPULARITY))
    tried = tuple(
        Tried(sets=tuple(sets), validation=0.5, round=1, stopped=None, seconds=0.0)
        for sets in row.settings
    )
    results = with_cells(table, {})
    key = place_of(table).key
    results.choices[key] = Choice(digest="", by="validation", tried=tried, chosen=0)
    text = as_markdown(table, results, tmp_path)
    assert "- Rounds 40 (90 on planted), in the search 10: fedmf." in text
    assert f"Nothing told the settings of {key} apart" in text
    other = tried[1].model_copy(update={"validation": 0.4})
    choice = Choice(digest="", by="validation", tried=(tried[0], other), chosen=0)
    results.choices[key] = choice
    assert "Nothing told" not in as_markdown(table, results, tmp_path)
    single = replace(table, rows=(replace(row, settings=((),)), POPULARITY), settings=1)
    text = as_markdown(single, with_cells(single, {}), tmp_path)
    assert "Every row has one setting, and nothing is searched." in text
    assert "- Rounds 40 (90 on planted): fedmf." in text


def test_seen_and_unseen_test_items_stand_apart_and_sum_to_the_whole(tmp_path: Path) -> None:
    asked = replace(FEW, seen_unseen=True)
    place = place_of(asked)
    shares = Shares(
        warm=Share(held_out=3, adds={"full HR@10": 0.3, "full NDCG@10": 0.0}),
        unseen=Share(held_out=2, adds={"full HR@10": 0.1, "full NDCG@10": 0.0}),
    )
    results = with_cells(asked, {place.cell(0): made_up(place, 0, 40.0, breakdown=shares)})
    text = as_markdown(asked, results, tmp_path)
    assert (
        "| method | metric | pfedrec, warm | pfedrec, unseen | clean, warm | clean, unseen |"
        in text
    )
    assert f"| fedmf | HR@10 full | {DASH} | {DASH} | 30.00 (1) | 10.00 (1) |" in text
    assert "Unseen are 2 of 5 under clean." in text
    assert "warm" not in as_markdown(FEW, results, tmp_path)
    assert seen_unseen_lines(asked, FEW.datasets[0], with_cells(asked, {})) == []

    results = filling(asked, tmp_path, Clock(), seeds=1, only=("clean",)).fill()
    assert len(results.done) == 2
    for cell in results.done:
        assert cell.breakdown is not None
        adds = [getattr(cell.breakdown, kind).adds for kind in KINDS]
        whole = sum(part.get("full HR@10", 0.0) for part in adds)
        assert whole == pytest.approx(cell.metrics["full HR@10"])
    text = (tmp_path / "table-few.md").read_text()
    assert "Every test item is in somebody's train." in text  # so is all of the planted data


def test_the_sentence_about_one_row_comes_from_the_numbers(tmp_path: Path) -> None:
    random = replace(POPULARITY, name="random", method="random")
    rows = (random, POPULARITY, replace(POPULARITY, name="gone", method="gone"))
    table = replace(FEW, rows=rows, published={}, paper=None, against="random")
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
    filling(FEW, tmp_path / "out", Clock(), seeds=1, only=("popularity",), publish=place).fill()
    for name in ("table-few.md", "table-few.json"):
        assert (place / name).read_text() == (tmp_path / "out" / name).read_text()
    assert sorted(path.name for path in place.iterdir()) == ["table-few.json", "table-few.md"]
    assert str(tmp_path) not in (place / "table-few.json").read_text()


def test_bytes_stand_beside_the_numbers_where_a_table_asks(tmp_path: Path) -> None:
    alone = replace(FEW, paper=None, published={})
    place = place_of(alone)
    cells: dict[str, DoneCell | Cell] = {place.cell(0): made_up(place, 0, 20, bytes_up=53_828)}
    asked = as_markdown(replace(alone, bytes_up=True), with_cells(alone, cells), tmp_path)
    assert "| method | HR@10 full | NDCG@10 full | up, per client and round |" in asked
    assert "| fedmf | 20.00 (1) | 0.00 (1) | 53.8 kB |" in asked
    assert "53.8 kB" not in as_markdown(alone, with_cells(alone, cells), tmp_path)
    assert "bytes_up" not in made_up(place, 0, 20).model_dump()


def test_a_packed_run_publishes_the_bytes_of_its_record(tmp_path: Path) -> None:
    row = Row("packed", "fedmf", plugins=("quantise",), rounds=1, search_rounds=1, free=True)
    table = Table("few", "Few", (row,), (Data("planted"),), (("full", "HR@10"),), 1, bytes_up=True)
    results = filling(table, tmp_path, Clock(), seeds=1).fill()
    cell = done(results, "packed | planted | clean | seed 0")
    cost = RunFolder(tmp_path / cell.folder).record().cost
    assert cell.bytes_up == cost.bytes_up == cost.bytes_down // (32 * 4) * (32 + 4)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_rows_with_noise_say_whether_anything_is_guaranteed(table: Table) -> None:
    for row in table.rows:
        built = resolve(row.method, preset=row.preset, plugins=row.plugins, sets=row.sets).method
        links = getattr(built, "channel", ())
        noisy = any("noise" in link.gives for link in links) or getattr(built, "laplace", 0)
        promised = built.algorithm(Task(2, 3, releases=1)).guarantee(releases=1) is not None
        assert bool(noisy and not promised) == ("(no guarantee)" in row.name), row.name
        assert promised == ("(large epsilon)" in row.name), row.name


def test_a_table_says_what_its_rows_promise(tmp_path: Path) -> None:
    """Above the numbers, in the words of the records, for the rows that have a guarantee alone."""
    noisy = replace(FEDMF, name="fedmf with noise", plugins=("clip", "gaussian:sigma=4"))
    some = replace(FEW, rows=(noisy, POPULARITY), published={})
    results = filling(some, tmp_path, Clock(), seeds=1).fill()
    written = (tmp_path / "table-few.md").read_text(encoding="utf-8")
    told = {cell.row: cell.privacy for cell in results.done}
    assert told["popularity"] is None
    assert str(told["fedmf with noise"]).startswith("user-level ε = ")
    expected = f"- Guarantee of fedmf with noise: {told['fedmf with noise']}; the choice of their"
    assert expected in written
    assert written.count("Guarantee of") == 1


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_row_of_a_real_table_tries_as_many_settings(table: Table) -> None:
    ablation = all(row.free for row in table.rows)  # every row has the same fixed settings
    if table.name == "fedrkg-clean":  # a search over three things at once
        assert table.settings == 32
    else:
        assert table.settings == 1 if ablation else 4 <= table.settings <= 6
    nothing_to_choose = ("popularity", "random", "unseen_first", "mean_profile")
    as_published = ("gru4rec", "sasrec")  # networks that take the settings of their papers
    for row in table.rows:
        if row.free:
            gained = table.gains is not None and not row.name.endswith(f" + {table.gains}")
            assert ablation or gained or row.method in (*nothing_to_choose, *as_published)
        else:
            for tried in (row.settings, *(settings for _, settings in row.settings_on)):
                assert len(set(tried)) == table.settings, row.name
            assert {name for name, _ in row.settings_on} <= {data.name for data in table.datasets}
        assert row.search_rounds <= row.rounds
        shorter = row.search_rounds < row.rounds
        assert not shorter or row.search_rounds % row.evaluate_every == 0, row.name


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_setting_of_a_real_table_exists_and_differs(table: Table) -> None:
    for place in table.places:
        assert place.row.absent is None
        tried = [place.experiment(setting, 0) for setting in place.settings]
        assert len({digest(one) for one in tried}) == len(place.settings), place.key
        expected = "clean" if place.column == "clean" else table.paper
        if "shuffled (control)" in place.row.name:
            expected = "shuffled_order"
        assert {one.protocol.name for one in tried} == {expected}


@pytest.mark.parametrize("table", [t for t in TABLES.values() if t.gains], ids=lambda t: t.name)
def test_rows_of_a_gain_differ_in_the_plug_in_alone(table: Table) -> None:
    for data in table.datasets:
        pairs = table.pairs_of(data)
        assert 2 * len(pairs) == len(table.rows_of(data))
        for plain, gained in pairs:
            assert gained.plugins == (*plain.plugins, table.gains)
            fixed = {"name": "", "plugins": (), "settings": ((),), "free": False}
            assert replace(plain, **fixed) == replace(gained, **fixed)  # type: ignore[arg-type]
            assert all(one.startswith(f"{table.gains}.") for s in gained.settings for one in s)


def test_gains_are_differences_of_the_rows(tmp_path: Path) -> None:
    ease = replace(POPULARITY, name="ease", method="ease", sets=("ridges=[10.0]",))
    halves = (("recency.half_life=1.0",), ("recency.half_life=9.0",))
    recent = replace(ease, name="ease + recency", plugins=("recency",), settings=halves, free=False)
    table = replace(FEW, rows=(ease, recent), published={}, paper=None, gains="recency")
    results = filling(table, tmp_path, Clock(), seeds=1).fill()
    text = (tmp_path / "table-few.md").read_text()
    line = next(one for one in text.splitlines() if one.startswith("| ease | recency.half_life"))
    plain, gained = (100 * cell.metrics["full HR@10"] for cell in results.done)
    assert f"| {plain:.2f} → {gained:.2f} ({gained - plain:+.2f}) |" in line
    chosen = results.setting_of(table.places[1])
    assert chosen is not None
    assert chosen[0] in line
    assert "ease + recency | planted | HR@10" in results.tests
    with pytest.raises(TacitError, match="no row 'ease' to gain over"):
        replace(table, rows=(recent,))


def test_both_columns_hold_out_the_same_items_where_one_is_set_beside_the_other() -> None:
    for table in TABLES.values():
        for data in table.datasets:
            if table.columns_of(data) == ("paper", "clean"):
                row = table.rows[0]
                paper, clean = (
                    Place(table, row, data, column).experiment(row.settings[0], 0)
                    for column in table.columns_of(data)
                )
                assert paper.protocol.split == clean.protocol.split


def test_a_grid_is_every_value_of_each_field_with_every_other() -> None:
    guided = next(row for row in TABLES["fedrkg-clean"].rows if row.name == "fixed guidance")
    assert len(set(guided.settings)) == 4 * 4 * 2
    assert guided.settings[0] == (
        "sync.beta=0.0",
        "sync.every=1",
        "local.model.rate=0.01",
        "local.items.rate=0.01",
    )
    assert guided.settings[-1][:2] == ("sync.beta=0.99", "sync.every=100")


def test_appendix_c_gives_every_method_descent_four_rates_and_its_rounds() -> None:
    table = TABLES["fedrkg-appendix-c"]
    assert table.seeds == 5
    tried = {0.0001, 0.001, 0.01, 0.1}
    for place in table.places:
        long = 3000 if place.data.name == "lastfm-2k-10" else 1000
        made = [place.experiment(setting, 0) for setting in place.settings]
        assert {experiment.rounds for experiment in made} == {long}
        assert place.experiment(place.settings[0], 0, search=True).rounds < 1000
        assert {experiment.protocol.patience for experiment in made} == {100}
        steps = []
        for experiment in made:
            method: Any = experiment.method
            local = getattr(method, "local", None)
            steps.append(method.optimiser if local is None else getattr(local, "model", local))
        assert all(isinstance(step, Sgd) for step in steps), place.key
        assert {step.rate for step in steps} == tried
        assert {step.decay for step in steps} == {1.0}
        if place.row.name == "fedrkg":
            beta = 0.999 if place.data.name == "lastfm-2k-10" else 0.99
            assert {experiment.method.sync.beta for experiment in made} == {beta}  # type: ignore[union-attr]


def test_a_search_is_shown_whole_where_a_table_asks_for_it(tmp_path: Path) -> None:
    plain = replace(FEW, rows=(FEDMF,), paper=None, published={})
    results = filling(plain, tmp_path, Clock(), seeds=1).fill()
    assert "All that was tried" not in as_markdown(plain, results, tmp_path)
    text = as_markdown(replace(plain, all_tried=True), results, tmp_path)
    tried = results.choices["fedmf | planted | clean"].tried
    assert "### fedmf | planted | clean: 2 of 2 settings tried" in text
    for one in tried:
        assert one.validation is not None
        assert f"| {', '.join(one.sets)} | {100 * one.validation:.2f} | {one.round} |" in text


def test_a_mistake_in_a_table_is_one_sentence(tmp_path: Path) -> None:
    from lab.definition import HOME, read_table

    good = (HOME / "pfedrec-main.toml").read_text()
    for change, said in (
        (("settings = 4", "settings = 5"), "tries 4 settings and not 5; every row tries as many"),
        (('tried = "linear"', 'tried = "linaer"'), "cannot be read: 'linaer'"),
        (('method = "ncf"', 'methd = "ncf"'), "rows.0.method"),
        (("rows = [", "rows = [["), "cannot be read: "),
    ):
        path = tmp_path / "pfedrec-main.toml"
        path.write_text(good.replace(*change))
        with pytest.raises(TacitError, match=said):
            read_table(path)
