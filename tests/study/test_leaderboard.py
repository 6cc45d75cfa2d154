"""The leaderboard: what is true becomes a row, each kind of forgery is caught, and the page."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tacit.cli.settings import experiment_of
from tacit.errors import TacitError
from tacit.experiment.folder import RunFolder
from tacit.experiment.record import RunRecord
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.study.command import command_of, words_of
from tacit.study.leaderboard import SORTED_BY, Leaderboard, Measure, collect, leaderboard
from tacit.study.leaderboard_page import (
    as_page,
    json_text,
    markdown,
    numbers,
    time_text,
    write_page,
)
from tacit.study.study import digest
from tacit.study.verified import run_folders, verify

PLAYS = [(user, item) for user in range(8) for item in range(user % 3, 9 + user % 4)]


def train(folder: Path, method: str = "fedmf", **options: Any) -> Path:
    given: dict[str, Any] = {"rounds": 3} if method == "fedmf" else {}
    run(resolve(method, **(given | options)), folder)
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("private") / "run"
    return train(place, plugins=["private:epsilon=8"])


@pytest.fixture
def copied(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "copy")
    return tmp_path / "copy"


def reseal(folder: Path) -> None:
    """What somebody does who edits a file and knows of checksums."""
    files = RunFolder(folder)
    files.write_checksums(files.result_file.read_text(encoding="utf-8"))


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the record, and write checksums that fit."""
    path = RunFolder(folder).result_file
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    reseal(folder)


def rank_again(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path = RunFolder(folder).ranks_file
    change(pl.read_parquet(path)).write_parquet(path)
    reseal(folder)


def settings(folder: Path, old: str, new: str) -> None:
    path = RunFolder(folder).experiment_file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    reseal(folder)


def why(folder: Path) -> str:
    with pytest.raises(TacitError) as refused:
        verify(folder)
    return str(refused.value)


# Each kind of forgery.


def test_an_honest_run_is_true_and_stays_so_when_copied(copied: Path) -> None:
    assert verify(copied).unchecked == ()
    reseal(copied)
    assert verify(copied).record.metrics.full["HR@10"] > 0


HONEST: dict[str, tuple[str, dict[str, Any]]] = {
    "generated rows": ("mdifffr", {"rounds": 2}),
    "content": ("fcf", {"plugins": ["fedmr"], "rounds": 2}),
    "some take part": ("fedmf", {"participation": 0.5, "seed": 3}),
    "a local claim": ("fedmf", {"plugins": ["private:epsilon=8,view=local"]}),
    "a claim of sums": ("fedease", {"plugins": ["private:epsilon=2"]}),
    "smaller uploads": ("pfedrec", {"plugins": ["quantise:bits=8"], "rounds": 2}),
    "an early stop": ("fedmf", {"sets": ["evaluate_every=2", "protocol.patience=1"]}),
    "several test items": ("fedmf", {"split": "ratio"}),
    "cold items among all": ("fedmf", {"plugins": ["ridge"], "split": "cold_together"}),
}


@pytest.mark.parametrize("kind", HONEST)
def test_nothing_true_is_refused(kind: str, tmp_path: Path) -> None:
    method, options = HONEST[kind]
    assert verify(train(tmp_path / "run", method, **options)).unchecked == ()


def test_an_edited_record_does_not_fit_its_checksum(copied: Path) -> None:
    path = RunFolder(copied).result_file
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    assert "run.json" in why(copied)
    assert "checksum" in why(copied)


RECORD_FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a metric": (lambda r: r["metrics"]["full"].update({"NDCG@10": 0.99}), "its ranks give"),
    "a sampled metric": (lambda r: r["metrics"]["sampled99"].update({"HR@5": 1.0}), "its ranks"),
    "a metric too many": (lambda r: r["metrics"]["full"].update({"HR@3": 1.0}), "not there"),
    "a metric too few": (lambda r: r["metrics"]["full"].pop("HR@20"), "not there"),
    "chance": (lambda r: r["reference"]["full"]["chance"].update({"HR@10": 0.0}), "chance"),
    "popularity": (
        lambda r: r["reference"]["full"]["popularity"].update({"NDCG@10": 0.0}),
        "popularity, full ranking",
    ),
    "the seed": (lambda r: r.update(seed=7), "says seed 7"),
    "the method": (lambda r: r.update(method="ours"), "says method 'ours'"),
    "the dataset": (lambda r: r.update(dataset="ml-1m"), "says dataset 'ml-1m'"),
    "the preset": (lambda r: r.update(preset="tuned"), "says preset 'tuned'"),
    "the rounds": (lambda r: r.update(rounds=9), "says rounds 9"),
    "rounds that were run": (lambda r: r.update(rounds_run=2), "metrics.jsonl has 3"),
    "the validation value": (
        lambda r: r["test_released"].update(validation_value=0.5),
        "says 0.500000 on validation",
    ),
    "the data": (lambda r: r["data"].update(interactions="0" * 24), "name different data"),
    "the split": (lambda r: r.update(split="labels"), "says the split is 'labels'"),
    "how many people there are": (lambda r: r["counts"].update(users=9), "counts other data"),
    "how many were ranked": (lambda r: r["counts"].update(test=9), "300 test items"),
    "bytes": (lambda r: r["cost"].update(bytes_up=8), "says bytes_up 8"),
    "bytes of the ledger": (
        lambda r: r["ledger"]["crossings"][0].update(bytes_total=1),
        "counts other bytes",
    ),
    "releases": (lambda r: r["ledger"].update(releases=1), "says releases 1"),
    "the format": (lambda r: r.update(format=99), "newer version"),
    "a field that is no part of a record": (lambda r: r.update(award="first"), "award"),
}


@pytest.mark.parametrize("forged", RECORD_FORGERIES)
def test_a_forged_record_is_caught_though_its_checksums_fit(forged: str, copied: Path) -> None:
    change, said = RECORD_FORGERIES[forged]
    edit(copied, change)
    assert said in why(copied)


def test_another_round_than_the_best_on_validation_is_caught(copied: Path) -> None:
    lines = RunFolder(copied).metrics_file.read_text().splitlines()
    values = [json.loads(line)["valid"]["full"]["NDCG@10"] for line in lines]
    worst = int(np.argmin(values)) + 1

    def change(record: dict[str, Any]) -> None:
        assert record["selected_round"] != worst
        record["selected_round"] = worst
        record["test_released"] = {"round": worst, "validation_value": values[worst - 1]}

    edit(copied, change)
    assert "not what its protocol selects" in why(copied)


def test_a_guarantee_without_noise_is_caught(copied: Path, private: Path) -> None:
    promised = json.loads(RunFolder(private).result_file.read_text())["privacy"]
    edit(copied, lambda record: record.update(privacy=promised))
    assert "adds no noise" in why(copied)


@pytest.mark.parametrize("field", ["epsilon", "delta", "noise", "releases"])
def test_a_guarantee_that_promises_more_is_caught(
    field: str, private: Path, tmp_path: Path
) -> None:
    shutil.copytree(private, tmp_path / "copy")
    assert verify(tmp_path / "copy").record.privacy.guaranteed
    less = {"epsilon": 1.0, "delta": 1e-9, "noise": 999.0, "releases": 1}[field]
    edit(tmp_path / "copy", lambda record: record["privacy"].update({field: less}))
    assert f"promises {field}" in why(tmp_path / "copy")


RANK_FORGERIES: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "better places": (lambda t: t.with_columns(above=pl.lit(0)), "its ranks give"),
    "places that do not exist": (lambda t: t.with_columns(above=pl.lit(-1)), "beyond"),
    "people left out": (lambda t: t.filter(pl.col("user") > 9), "test items"),
    "one person for all": (lambda t: t.with_columns(user=pl.lit(3)), "other people"),
    "other items": (
        lambda t: t.with_columns(item_id=pl.lit("easy")),
        "other items than the split holds out",
    ),
    "fewer candidates": (lambda t: t.with_columns(candidates=pl.col("above") + 1), "chance"),
}


@pytest.mark.parametrize("forged", RANK_FORGERIES)
def test_forged_ranks_are_caught_though_checksums_fit(forged: str, copied: Path) -> None:
    change, said = RANK_FORGERIES[forged]
    rank_again(copied, change)
    assert said in why(copied)


def test_a_damaged_or_lost_file_is_caught(copied: Path) -> None:
    files = RunFolder(copied)
    with files.metrics_file.open("a") as stream:
        stream.write("\n")
    assert "metrics.jsonl" in why(copied)
    reseal(copied)
    assert "cannot be read" in why(copied)
    files.checksums_file.unlink()
    assert "lost its checksums.json" in why(copied)


def test_a_forged_experiment_is_caught(copied: Path) -> None:
    settings(copied, "rounds = 3", "rounds = 30")
    assert "its experiment rounds 30" in why(copied)


def test_a_protocol_that_only_calls_itself_clean_is_caught(copied: Path) -> None:
    settings(copied, 'negatives_exclude = "train"', 'negatives_exclude = "all"')
    assert "named 'clean' but hides held-out items" in why(copied)


def test_a_folder_named_by_another_digest_is_caught(honest: Path, tmp_path: Path) -> None:
    own = tmp_path / f"fedmf-seed0-{digest(RunFolder(honest).experiment())}"
    other = tmp_path / "fedmf-seed0-0123456789"
    for place in (own, other):
        shutil.copytree(honest, place)
    assert verify(own).folder == own
    assert "digest 0123456789" in why(other)


def test_a_run_on_data_that_is_another_now_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "plays.csv"
    lines = ["user,item", *(f"u{user},i{item}" for user, item in PLAYS)]
    file.write_text("\n".join(lines))
    folder = train(tmp_path / "run", "popularity", data=str(file), split="row")
    assert verify(folder).unchecked == ()
    file.write_text("\n".join([*lines, "u1,new"]))
    assert "has changed since the run" in why(folder)
    file.unlink()
    [note] = verify(folder).unchecked
    assert "is not at hand here" in note


def test_an_unfinished_run_is_caught(copied: Path) -> None:
    RunFolder(copied).result_file.unlink()
    assert "not finished" in why(copied)


# Seeds, settings and sections.


def board_of(*folders: Path) -> Leaderboard:
    return leaderboard(list(folders))[0]


def test_the_same_seed_counts_once(honest: Path, copied: Path) -> None:
    board = board_of(honest, copied)
    assert board.sections[0].rows[0].seeds == (0,)
    [refused] = board.refused
    assert "the same experiment with the same seed (0)" in refused.why


def test_a_copy_with_another_seed_is_no_second_seed(honest: Path, copied: Path) -> None:
    settings(copied, "seed = 0", "seed = 5")
    edit(copied, lambda record: record.update(seed=5))
    assert RunFolder(copied).experiment().seed == 5
    [refused] = board_of(honest, copied).refused
    assert "losses and ranks are those of" in refused.why


def test_seeds_are_one_row_with_an_interval_over_people(honest: Path, tmp_path: Path) -> None:
    [row] = board_of(honest, train(tmp_path / "one", seed=1)).sections[0].rows
    assert row.seeds == (0, 1)
    assert row.results == 2
    measure = row.metrics[SORTED_BY]
    assert measure.mean == pytest.approx(np.mean(measure.by_seed))
    assert measure.low < measure.mean < measure.high
    assert row.command.startswith("for seed in 0 1; do tacit train fedmf --data planted")


def test_seeds_that_ran_on_different_devices_name_both(honest: Path, tmp_path: Path) -> None:
    other = train(tmp_path / "other", seed=1)
    settings(other, 'device = "cpu"', 'device = "cuda"')
    edit(other, lambda record: record.update(device="cuda"))
    [row] = board_of(honest, other).sections[0].rows
    assert row.device == "cpu, cuda"
    assert time_text(row).endswith(" on cpu, cuda")


def test_a_system_that_draws_nothing_says_that_its_seeds_are_alike(tmp_path: Path) -> None:
    folders = [train(tmp_path / f"{n}", "popularity", seed=n) for n in (0, 1)]
    board = board_of(*folders)
    assert board.refused == ()
    assert board.sections[0].rows[0].results == 1
    assert "2 seeds, all alike" in markdown(board)


def test_the_interval_is_that_of_people_drawn_again(tmp_path: Path) -> None:
    """The same as the standard error of the mean over people, within what drawing leaves open."""
    folder = train(tmp_path / "one", "popularity")
    [row] = board_of(folder).sections[0].rows
    ranks = verify(folder).ranks.full
    place_E = ranks.above_H + ranks.tied_H / 2  # popularity ties are few among the first ten
    share = float((place_E < 10).mean())
    around = 1.96 * np.sqrt(share * (1 - share) / len(place_E))
    measure = row.metrics["HR@10"]
    assert measure.high - measure.low == pytest.approx(2 * around, rel=0.15)


def test_validation_chooses_among_settings_and_all_of_them_count(tmp_path: Path) -> None:
    rates = (0.001, 0.1, 1.0)
    folders = [
        train(tmp_path / f"{rate}", sets=[f"local.items.rate={rate}"], rounds=6) for rate in rates
    ]
    values = [RunFolder(folder).record().test_released.validation_value for folder in folders]
    board = board_of(*folders)
    [row] = board.sections[0].rows
    best = folders[int(np.argmax(values))]
    assert row.digests == (digest(RunFolder(best).experiment()),)
    assert row.tried == 3
    assert {one.name for one in board.refused} == {f.name for f in folders if f != best}
    assert all(f"validation prefers {best.name}" in one.why for one in board.refused)


def test_settings_that_are_no_preset_have_an_unknown_search(honest: Path, tmp_path: Path) -> None:
    plain = train(tmp_path / "plain", "popularity")
    [own] = board_of(honest).sections[0].rows  # three rounds are not those of the preset
    assert (own.tried, own.search) == (None, "not said: settings are not those of preset paper")
    assert board_of(plain).sections[0].rows[0].search == "1, preset paper"
    ease = train(tmp_path / "ease", "ease")
    assert board_of(ease).sections[0].rows[0].tried == 8


def test_what_is_promised_stands_apart_from_what_is_not(honest: Path, private: Path) -> None:
    rows = board_of(honest, private).sections[0].rows
    told = {row.system: row for row in rows}
    assert told["fedmf"].privacy == "no guarantee"
    protected = told["fedmf + private:epsilon=8"]
    assert protected.epsilon == pytest.approx(8.0, rel=1e-3)
    assert (protected.delta, protected.view) == (1e-5, "secure_sum")


def test_seeds_under_a_guarantee_are_several_releases(private: Path, tmp_path: Path) -> None:
    alone = board_of(private).sections[0].sentences
    assert not [said for said in alone if "is that of one run" in said]
    other = train(tmp_path / "other", plugins=["private:epsilon=8"], seed=1)
    [said] = [s for s in board_of(private, other).sections[0].sentences if "one run" in s]
    assert said.startswith("The epsilon of fedmf + private:epsilon=8 is")


def test_other_protocols_splits_and_untouched_items_stay_apart(tmp_path: Path) -> None:
    folders = [
        train(tmp_path / "clean", "popularity"),
        train(tmp_path / "random", "popularity", split="random"),
        train(tmp_path / "cold", "popularity", split="cold"),
        train(tmp_path / "paper", protocol="pfedrec"),
    ]
    board = board_of(*folders)
    assert [(one.split, one.cold) for one in board.sections] == [
        ("leave_one_out by random", False),
        ("leave_one_out by time", False),
        ("cold", True),
    ]
    [refused] = board.refused
    assert refused.why.startswith("not ranked: its protocol is 'pfedrec'")
    assert "Recall@20" in board.sections[2].rows[0].metrics
    with pytest.raises(TacitError, match="None of these 1 runs can be ranked; the first, paper"):
        leaderboard(folders[3:])


def test_rows_are_sorted_and_ties_and_overlaps_are_said(tmp_path: Path) -> None:
    names = ("random", "popularity", "fedpop", "ease")
    [section] = board_of(*(train(tmp_path / name, name) for name in names)).sections
    assert [row.system for row in section.rows] == ["ease", "fedpop", "popularity", "random"]
    assert section.places == ["1", "2=", "2=", "4"]
    assert section.rows[1].value == section.reference["popularity"][SORTED_BY]
    told = " ".join(section.sentences)
    assert "Tied in NDCG@10 at place 2: fedpop, popularity." in told
    first, popular, last = section.rows[0], section.rows[2], section.rows[3]
    value = popular.metrics[SORTED_BY]
    for high, said in ((value.mean - 1e-3, ""), (value.mean, ", with an interval that reaches it")):
        other = last.metrics[SORTED_BY].model_copy(update={"high": high})
        below = last.model_copy(update={"metrics": {**last.metrics, SORTED_BY: other}})
        told = section.model_copy(update={"rows": (first, below)}).sentences
        assert told[-1] == f"Below popularity{said}: random."
    added = value.model_copy(update={"mean": float(np.nextafter(value.mean, 0.0))})
    other = popular.model_copy(update={"metrics": {**popular.metrics, SORTED_BY: added}})
    pairs = section.model_copy(update={"rows": (first, first, popular, other)})
    assert pairs.places == ["1=", "1=", "3=", "3="]
    assert pairs.sentences[1:] == [
        "Tied in NDCG@10 at place 1: ease, ease.",
        "Tied in NDCG@10 at place 3: popularity, popularity.",
    ]
    far, near = (Measure(mean=m, low=m - 0.1, high=m + 0.1, by_seed=(m,)) for m in (0.9, 0.5))
    close = near.model_copy(update={"high": 0.85})
    assert not far.overlaps(near)
    assert far.overlaps(close)
    assert close.overlaps(far)


def test_test_items_in_nobodys_train_part_are_counted_where_they_are_many(tmp_path: Path) -> None:
    [section] = board_of(*(train(tmp_path / n, n) for n in ("unseen_first", "random"))).sections
    first = RunRecord.of_json((tmp_path / "random" / "run.json").read_bytes())
    assert section.unseen == first.breakdown.unseen.users
    many = section.model_copy(update={"unseen": section.users // 2})
    [said] = [one for one in many.sentences if "nobody's train part" in one]
    above = section.rows[0].system == "unseen_first"
    assert said.endswith(f"knows nothing else, is above {int(above)} of the other rows.")
    few = section.model_copy(update={"unseen": int(section.users * 0.04)})
    assert not [one for one in few.sentences if "nobody's train part" in one]


# Commands that run a row again.

EXPERIMENTS = {
    "names": resolve("pfedrec", data="ml-100k"),
    "a preset": resolve("pfedrec", preset="released", rounds=7),
    "settings": resolve("fedncf", sets=["backbone.layers=[8,1]", "evaluate_every=2"]),
    "plug-ins": resolve("fedmf", plugins=["clip:bound=1", "gaussian:sigma=0.5"]),
    "a claim": resolve("fedease", plugins=["private:epsilon=2"]),
    "a split": resolve("fedmf", split="global_time:test_share=0.2"),
    "a cold split": resolve("ease", data="citeulike-a", split="cold"),
    "cold items": resolve("mdifffr", data="ml-100k"),
    "a file": resolve("fedmf", data="a b.csv", columns={"user": "who", "item": "what"}, core=3),
    "a share": resolve("fedmf", participation=0.5, device="cuda"),
}


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_a_command_gives_the_very_experiment(kind: str) -> None:
    asked = EXPERIMENTS[kind]
    command = command_of([replace(asked, seed=4)], "unused.toml")
    assert "--config" not in command
    assert flags_read(command) == replace(asked, seed=4)


def flags_read(command: str) -> Experiment:
    """The experiment that `tacit train` would make of these words."""
    first, second, method, *words = shlex.split(command)
    assert (first, second) == ("tacit", "train")
    given: dict[str, Any] = {"method": method, "plugins": [], "sets": []}
    for flag, value in zip(words[::2], words[1::2], strict=True):
        name = {"--with": "plugins", "--set": "sets"}.get(flag, flag.removeprefix("--"))
        if name in ("plugins", "sets"):
            given[name].append(value)
        elif name == "columns":
            given[name] = dict(pair.split("=") for pair in value.split(","))
        else:
            given[name] = int(value) if name == "seed" else value
    return experiment_of(None, given)


def test_an_experiment_that_no_flags_lead_to_is_written_beside_the_page(tmp_path: Path) -> None:
    experiment = resolve("fedmf", rounds=2)
    tuned = replace(experiment, method=resolve("pfedrec").method)  # called fedmf, and it is not
    assert words_of(tuned) is None
    run(tuned, tmp_path / "one")
    board, needed = leaderboard([tmp_path / "one"])
    [row] = board.sections[0].rows
    written = write_page(board, needed, tmp_path / "page")
    _, _, flag, config, *_ = shlex.split(row.command)
    assert flag == "--config"
    assert tmp_path / "page" / config in written
    assert experiment_of(tmp_path / "page" / config, {"seed": 0}) == tuned


# The page.


@pytest.fixture(scope="module")
def board(honest: Path, private: Path, tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    place = tmp_path_factory.mktemp("board")
    others = [train(place / name, name) for name in ("popularity", "ease")]
    cold = train(place / "cold", "popularity", split="cold")
    paper = train(place / "<paper>", protocol="pfedrec")
    return board_of(honest, private, *others, cold, paper)


def test_the_numbers_are_read_again_as_they_were(board: Leaderboard) -> None:
    assert Leaderboard.model_validate_json(json_text(board)) == board


def test_the_page_needs_nothing_but_itself(board: Leaderboard) -> None:
    page = as_page(board)
    assert not any(word in page for word in ("http:", "https:", "<script", "<link", "src=", "url("))
    assert 'name="viewport"' in page
    assert "overflow-x: scroll" not in page
    assert "&lt;paper&gt;" in page
    assert "<paper>" not in page


def test_every_row_stands_on_the_page_with_all_that_belongs_to_it(board: Leaderboard) -> None:
    page, text = as_page(board), markdown(board)
    for section in board.sections:
        for row in section.rows:
            for shown in (row.system, f"{row.value:.4f}", row.privacy, row.search, row.command):
                assert shown in text
                assert shown in page
        for name, values in section.reference.items():
            assert f"{values[SORTED_BY]:.4f}" in text
            assert name in page
    for shown in ("Items that nobody has touched", "Not ranked", "whose numbers do not compare"):
        assert shown in text
        assert shown in page
    assert "ε = 8" in page


def test_the_table_of_numbers_has_a_line_for_every_row(board: Leaderboard, tmp_path: Path) -> None:
    heading, rows = numbers(board)
    assert all(len(row) == len(heading) for row in rows)
    write_page(board, {}, tmp_path)
    frame = pl.read_csv(tmp_path / "leaderboard.csv")
    assert frame.height == sum(len(section.rows) for section in board.sections) == 5
    ease = frame.filter(pl.col("system") == "ease").row(0, named=True)
    [own] = [row for one in board.warm for row in one.rows if row.system == "ease"]
    assert ease[SORTED_BY] == own.value
    assert ease["command"] == "tacit train ease --data planted --seed 0"


def test_folders_are_looked_through_once(honest: Path, tmp_path: Path) -> None:
    assert list(run_folders([honest, honest.parent])) == [honest]
    with pytest.raises(TacitError, match="No run at"):
        list(run_folders([tmp_path]))


def test_a_collection_names_what_it_refused(copied: Path) -> None:
    edit(copied, lambda record: record["metrics"]["full"].update({"NDCG@10": 0.99}))
    [refused] = collect([copied]).refused
    assert refused.why.startswith("refused: NDCG@10 (full ranking) is 0.990000 in its record")
