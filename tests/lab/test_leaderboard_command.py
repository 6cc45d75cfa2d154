"""`python -m lab.leaderboard`: cheapest first, set aside, go on, and what is published."""

from __future__ import annotations

import shutil
from itertools import takewhile
from pathlib import Path

import pytest

import lab.leaderboard as lab
from lab.leaderboard import (
    DATASETS,
    FOR_COLD_ITEMS,
    SEEDS,
    Allowance,
    Board,
    published,
    read,
    whole_rows,
)
from tacit.errors import NoRoomError, TacitError
from tacit.experiment.callbacks import Callback
from tacit.methods import METHODS
from tacit.study.leaderboard import NOT_RUN, SORTED_BY, Leaderboard
from tacit.study.leaderboard_page import json_text, markdown
from tacit.study.runner import OutOfTimeError, Runner
from tacit.study.study import digest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
NOTHING = Leaderboard(sections=())


def board_in(out: Path, *systems: str) -> Board:
    return Board(out, datasets=("planted",), systems=systems, seeds=2)


def fill(board: Board, budget: float = float("inf")) -> None:
    assert Runner(budget=budget).run(board.jobs(), board.absorb) is None


def planned(board: Board) -> list[str]:
    """The keys of all jobs, in order, none of which is done."""
    return [job.key for job in takewhile(lambda job: job is not None, board.jobs())]


def test_all_that_can_run_is_run_and_the_rest_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = board_in(tmp_path, "popularity", "random", "mdifffr")
    fill(board)
    found, _ = published(board, NOTHING)
    [section] = found.sections
    assert [(row.system, row.seeds) for row in section.rows] == [
        ("popularity", (0, 1)),
        ("random", (0, 1)),
    ]
    [absent] = section.not_run
    assert (absent.name, absent.why) == ("mdifffr", FOR_COLD_ITEMS)
    assert capsys.readouterr().out.count(": done") == 4


def test_the_cheapest_run_comes_next() -> None:
    board = board_in(Path("nowhere"), "fedmf", "popularity", "ease")
    order = [key.split(", ")[0] for key in planned(board)]
    assert order == [f"planted: {name}" for name in ("popularity", "ease", "fedmf") for _ in "01"]
    board.pace["planted", "popularity"] = 1e6  # somebody has seen that it is slow
    assert planned(board)[-1].startswith("planted: popularity")


def test_datasets_come_one_after_the_other_and_long_runs_at_the_end() -> None:
    board = Board(Path("nowhere"), ("ninerec-ku", "ml-100k"), ("popularity", "fedmf"), seeds=1)
    board.pace["ninerec-ku", "fedmf"] = 1.0  # 3489 seconds there, and more elsewhere
    assert planned(board) == [
        "ninerec-ku: popularity, seed 0",
        "ml-100k: popularity, seed 0",
        "ninerec-ku: fedmf, seed 0",
        "ml-100k: fedmf, seed 0",
    ]
    board.pace["ml-100k", "fedmf"] = 1e-5  # there it is known to be fast
    assert [key.split(",")[0] for key in planned(board)] == [
        "ninerec-ku: popularity",
        "ml-100k: popularity",
        "ml-100k: fedmf",
        "ninerec-ku: fedmf",
    ]


def test_a_run_that_takes_too_long_is_set_aside_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "SHORTEST", 0.0)
    monkeypatch.setattr(lab, "PATIENCE", 1e-9)
    board = board_in(tmp_path, "fedmf")
    jobs = board.jobs()
    job = next(jobs)
    monkeypatch.setattr(lab, "PATIENCE", 1e9)
    board.absorb(job, job.do(Callback()))
    assert "set aside, may take" in capsys.readouterr().out
    assert len(board.missing) == 2
    for job in jobs:
        board.absorb(job, job.do(Callback()))
    assert all(trial.finished for trial in board.trials())


def test_a_machine_without_room_says_nothing_of_a_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise NoRoomError("The memory of cuda ran out.")

    monkeypatch.setattr(lab, "finish", no_room)
    board = board_in(tmp_path, "fedmf")
    fill(board)
    assert capsys.readouterr().out.count("The memory of cuda ran out.") == 2  # both seeds try
    [absent] = published(board, NOTHING)[0].sections[0].not_run
    assert (absent.name, absent.why) == ("fedmf", NOT_RUN)


def test_runs_side_by_side_wait_for_one_that_may_be_set_aside(tmp_path: Path) -> None:
    board = board_in(tmp_path, "fedmf")
    jobs = board.jobs()
    first, second = next(jobs), next(jobs)
    assert next(jobs) is None  # nothing else is missing, and two are under way
    board.absorb(second, second.do(Callback()))
    stopped = lab.TrialOutcome(board.trials()[0], price=1.0)
    board.absorb(first, stopped)
    assert next(jobs).key == first.key


def test_rows_that_were_published_whole_are_not_run_again(tmp_path: Path) -> None:
    board = board_in(tmp_path / "here", "popularity", "random")
    fill(board)
    before, _ = published(board, NOTHING)
    there = board_in(tmp_path / "there", "popularity", "ease")
    there.whole = whole_rows(before, seeds=2)
    assert {key.split(",")[0] for key in planned(there)} == {"planted: ease"}
    there.whole = whole_rows(before, seeds=3)  # they lack one
    assert len(planned(there)) == 4
    there.skipped = frozenset({"planted"})
    assert planned(there) == []


def test_an_allowance_knows_what_the_whole_may_take() -> None:
    allowance = Allowance(Callback(), seconds=-1.0)
    allowance.rounds, allowance.begun = 10, allowance.begun - 4.0  # two rounds in four seconds
    allowance.first = 3
    with pytest.raises(OutOfTimeError):
        allowance.round(4, None)
    assert allowance.price == pytest.approx(20.0, rel=0.1)


def test_what_was_published_stands_where_its_runs_are_not(tmp_path: Path) -> None:
    board = board_in(tmp_path, "popularity", "random")
    fill(board)
    before, _ = published(board, NOTHING)
    shutil.rmtree(tmp_path)
    again, _ = published(board_in(tmp_path, "popularity", "random"), before)
    assert again.sections == before.sections
    more, _ = published(board_in(tmp_path, "popularity", "random", "ease"), before)
    [absent] = more.sections[0].not_run
    assert (absent.name, absent.why) == ("ease", NOT_RUN)


def test_a_row_of_other_experiments_is_not_taken_over(tmp_path: Path) -> None:
    board = board_in(tmp_path, "popularity", "random")
    fill(board)
    before, _ = published(board, NOTHING)
    [section] = before.sections
    other = section.rows[0].model_copy(update={"digests": ("0123456789", "1234567890")})
    forged = section.model_copy(update={"rows": (other, section.rows[1])})
    shutil.rmtree(tmp_path)
    found, _ = published(board, before.model_copy(update={"sections": (forged,)}))
    assert [row.system for row in found.sections[0].rows] == ["random"]
    assert [one.name for one in found.sections[0].not_run] == ["popularity"]


def test_single_seeds_that_are_missing_are_named(tmp_path: Path) -> None:
    board = board_in(tmp_path, "popularity")
    for job, _ in zip(board.jobs(), "0", strict=False):
        board.absorb(job, job.do(Callback()))
    [section] = published(board, NOTHING)[0].sections
    assert section.rows[0].seeds == (0,)
    assert [(one.name, one.why) for one in section.not_run] == [("popularity (seed 1)", NOT_RUN)]


def test_a_dataset_without_a_run_says_so(tmp_path: Path) -> None:
    found, _ = published(board_in(tmp_path, "popularity"), NOTHING)
    [section] = found.sections
    assert section.rows == ()
    assert f"- popularity: {NOT_RUN}" in markdown(found)


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "leaderboard.json").write_text("{}")
    with pytest.raises(TacitError, match="is damaged"):
        read(tmp_path / "leaderboard.json")


# The file of the repository.


def test_the_published_file_is_what_the_command_writes() -> None:
    board = read(RESULTS / "leaderboard.json")
    assert json_text(board) == (RESULTS / "leaderboard.json").read_text(encoding="utf-8")
    text = markdown(board, "make leaderboard")
    assert text == (RESULTS / "leaderboard.md").read_text(encoding="utf-8")
    assert {one.dataset for one in board.sections} == set(DATASETS)
    assert [one.dataset for one in board.cold] == ["citeulike-a"]


def test_every_published_row_is_of_the_experiments_that_are_asked_for() -> None:
    asked = {
        digest(trial.experiment): trial.experiment for trial in Board(Path("nowhere")).trials()
    }
    for section in read(RESULTS / "leaderboard.json").sections:
        for row in section.rows:
            found = [asked[one] for one in row.digests]
            assert {one.label for one in found} == {row.system}
            assert {one.data.name for one in found} == {section.dataset}
            assert tuple(one.seed for one in found) == row.seeds
            assert len(row.metrics[SORTED_BY].by_seed) == len(row.seeds) <= SEEDS
            assert f"tacit train {row.system} --data {section.dataset}" in row.command
        values = [row.value for row in section.rows]
        assert values == sorted(values, reverse=True)


def test_every_system_of_the_list_has_a_row_or_a_reason() -> None:
    for section in read(RESULTS / "leaderboard.json").sections:
        named = {row.system for row in section.rows}
        named |= {one.name.split(" (")[0] for one in section.not_run}
        built_in = {name for name in METHODS if METHODS.from_import(name) is None}
        assert named >= built_in, f"{section.dataset}: {sorted(built_in - named)}"


def test_one_system_alone_is_run_where_it_can_be() -> None:
    board = board_in(Path("nowhere"), "sasrec", "ease")
    board.device, board.run_only = "cuda", frozenset({"sasrec"})
    where = {trial.experiment.name: trial.experiment.device for trial in board.trials()}
    assert where == {"sasrec": "cuda", "ease": "cpu"}
    assert [key.split(",")[0] for key in planned(board)] == ["planted: sasrec"] * 2


def test_a_system_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(TacitError, match="Unknown system 'eas'; did you mean 'ease'"):
        lab.leaderboard(system=["eas"])
