"""The data of a run is part of the run: what has changed is refused, what was shuffled is put back.

People and items are joined by their ids. Every command that meets the data of a run is asked.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.analysis.finished import finished_runs
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.digest import digest_of
from tacit.data.interactions import Interactions
from tacit.data.protocol import SplitRule
from tacit.data.split import part_of_rows
from tacit.errors import TacitError
from tacit.experiment.callbacks import Callback
from tacit.experiment.data_record import OLD, DataNow, DataRecord, prepare_again
from tacit.experiment.evaluate import evaluate
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps
from tacit.study.compare import compare
from tacit.study.sweep import Sweep, sweep
from tacit.testing.synthetic import ragged

MEASURED = {"seconds", "cpu_seconds", "threads", "run"}


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    """`ragged()` as a table in which no person has two lines of one time."""
    rows = ragged().interactions
    lines = ["user,item,time"]
    lines += [
        f"person {rows.users[user]},film {rows.items[item]},{1000 + 7 * place % 5003}"
        for place, (user, item) in enumerate(zip(rows.user_N, rows.item_N, strict=True))
    ]
    path = tmp_path / "plays.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def lines_of(plays: Path) -> list[str]:
    return plays.read_text(encoding="utf-8").splitlines()[1:]


def rewrite(plays: Path, lines: list[str]) -> None:
    plays.write_text("\n".join(["user,item,time", *lines]) + "\n", encoding="utf-8")


def shuffled(plays: Path, seed: int = 0) -> None:
    lines = lines_of(plays)
    random.Random(seed).shuffle(lines)
    rewrite(plays, lines)


def reversed_times(lines: list[str]) -> list[str]:
    fields = [line.split(",") for line in lines]
    return [f"{user},{item},{9000 - int(time)}" for user, item, time in fields]


def without_a_person(lines: list[str]) -> list[str]:
    gone = lines[0].split(",")[0]
    return [line for line in lines if line.split(",")[0] != gone]


def with_another_item(lines: list[str]) -> list[str]:
    user, _, time = lines[-1].split(",")
    return [*lines, f"{user},a film of next year,{int(time) + 9000}"]


def with_another_pair(lines: list[str]) -> list[str]:
    """One person turns out to have watched another film of the catalogue."""
    user, _, time = lines[0].split(",")
    had = {line.split(",")[1] for line in lines if line.startswith(f"{user},")}
    other = next(name for name in sorted({line.split(",")[1] for line in lines}) if name not in had)
    return [f"{user},{other},{time}", *lines[1:]]


def renamed_person(lines: list[str]) -> list[str]:
    """As many people and lines as before: counts tell nothing."""
    name = lines[0].split(",")[0]
    return [line.replace(f"{name},", "a stranger,", 1) for line in lines]


Change = Callable[[list[str]], list[str]]
CHANGES: dict[str, tuple[Change, str]] = {
    "times": (reversed_times, "the split differs: times or labels of the interactions"),
    "person": (without_a_person, "1 user is gone ("),
    "name": (renamed_person, "1 user is gone ("),
    "item": (with_another_item, "1 item is new ('a film of next year')"),
    "pair": (with_another_pair, "its interactions differ, though there are"),
}


class Stopper(Callback):
    def __init__(self, at: int) -> None:
        self.at = at

    def round(self, number: int, loss: float | None) -> None:
        if number == self.at:
            raise RuntimeError("killed")


def small(name: str, plays: Path, rounds: int = 4, **more: Any) -> Experiment:
    return resolve(name, data=str(plays), rounds=rounds, **more)


def stopped(experiment: Experiment, out: Path) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        run(experiment, out, callbacks=Stopper(3), checkpoint_seconds=0.0)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(TacitError) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_does_not_go_on_with_other_data(change: str, plays: Path, tmp_path: Path) -> None:
    """The worst of it: with other times, items that were held out have been trained on."""
    experiment, out = small("fedmf", plays), tmp_path / "one"
    stopped(experiment, out)
    turn, words = CHANGES[change]
    rewrite(plays, turn(lines_of(plays)))
    before = (out / "metrics.jsonl").read_bytes()
    said = refusal(lambda: run(experiment, out, resume=True))
    assert f"{plays} has changed since the run at {str(out)!r}: " in said
    assert words in said
    assert (out / "metrics.jsonl").read_bytes() == before
    assert not (out / "run.json").exists()


@pytest.mark.parametrize("change", CHANGES)
def test_no_reader_of_a_finished_run_takes_other_data(
    change: str, plays: Path, tmp_path: Path
) -> None:
    experiment, out = small("fedmf", plays, rounds=1), tmp_path / "one" / "fedmf" / "seed0"
    other = tmp_path / "one" / "popularity" / "seed0"
    run(experiment, out)
    run(small("popularity", plays), other)
    turn, words = CHANGES[change]
    user = lines_of(plays)[-1].split(",")[0]
    rewrite(plays, turn(lines_of(plays)))
    readers: dict[str, Callable[[], object]] = {
        "train --resume": lambda: run(experiment, out, resume=True),
        "recommend": lambda: recommend(out, user=user),
        "evaluate": lambda: evaluate(out),
        "analyse": lambda: finished_runs([out])[0].prepared,
        "compare": lambda: compare(
            ["fedmf", "popularity"], tmp_path / "one", seeds=1, data=str(plays), rounds=1
        ),
        "compare runs": lambda: compare([out, other]),
    }
    for name, call in readers.items():
        said = refusal(call)
        assert "has changed since the run at " in said, name
        assert words in said or "compare" in name, (name, said)


def test_times_are_data_for_methods_that_read_order(plays: Path, tmp_path: Path) -> None:
    """The two earliest items of a person change places: the split stays, the order does not."""
    for name, plugins in (("plain", ()), ("ordered", ("recency",))):
        run(small("ease", plays, rounds=1, plugins=plugins), tmp_path / name)
    lines = [line.split(",") for line in lines_of(plays)]
    person = max({line[0] for line in lines}, key=[line[0] for line in lines].count)
    one, two = sorted((line for line in lines if line[0] == person), key=lambda x: int(x[2]))[:2]
    one[2], two[2] = two[2], one[2]
    rewrite(plays, [",".join(line) for line in lines])
    assert recommend(tmp_path / "plain", user=person)
    told = refusal(lambda: recommend(tmp_path / "ordered", user=person))
    assert "times of its interactions differ, and the method reads their order" in told


def test_a_sweep_does_not_mix_runs_in_two_orders_of_lines(plays: Path, tmp_path: Path) -> None:
    def swept(values: str) -> Sweep:
        over = [f"local.epochs={values}"]
        return sweep("fedmf", over, tmp_path / "s", data=str(plays), rounds=1)

    before = swept("1,2")
    shuffled(plays)
    assert [row.validation for row in swept("1,2").rows] == [row.validation for row in before.rows]
    said = refusal(lambda: swept("1,2,3"))
    assert "local.epochs=1, seed 0 and local.epochs=3, seed 0 do not compare" in said
    assert "its lines stood in another order" in said


def test_a_sweep_does_not_use_runs_on_other_data(plays: Path, tmp_path: Path) -> None:
    def again() -> object:
        return sweep("fedmf", ["local.epochs=1,2"], tmp_path / "s", data=str(plays), rounds=1)

    again()
    rewrite(plays, reversed_times(lines_of(plays)))
    assert "the split differs" in refusal(again)


def scores_of(out: Path, people: list[str]) -> dict[str, list[tuple[str, float]]]:
    return {
        person: [(line.item, line.score) for line in recommend(out, user=person, k=20)]
        for person in people
    }


@pytest.mark.parametrize(
    "name", ["fedmf", "pfedrec", "fedspectral", "fedease", "fednext", "ease", "mf", "popularity"]
)
def test_a_shuffled_file_gives_everybody_the_same_list(
    name: str, plays: Path, tmp_path: Path
) -> None:
    """Codes are places of first appearance: joined by them, people would swap their lists."""
    experiment, out = small(name, plays, rounds=2), tmp_path / "one"
    result = run(experiment, out)
    people = sorted({line.split(",")[0] for line in lines_of(plays)})[::3]
    before, metrics = scores_of(out, people), evaluate(out)
    codes = prepare(experiment).dataset.interactions.users
    shuffled(plays)
    assert prepare(experiment).dataset.interactions.users != codes
    assert scores_of(out, people) == before  # bit for bit
    assert evaluate(out) == metrics
    assert run(experiment, out, resume=True) == result


@pytest.mark.parametrize("name", ["fedmf", "pfedrec", "fedspectral", "mf"])
def test_a_killed_run_goes_on_with_a_shuffled_file_bit_for_bit(
    name: str, plays: Path, tmp_path: Path
) -> None:
    experiment = small(name, plays)
    run(experiment, tmp_path / "whole")
    stopped(experiment, tmp_path / "broken")
    shuffled(plays, seed=1)
    run(experiment, tmp_path / "broken", resume=True)
    one, two = (
        json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "broken")
    )
    for key in one.keys() | two.keys():
        assert key in MEASURED or one[key] == two[key], key
    for file in ("metrics.jsonl", "ranks.parquet"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "broken" / file).read_bytes()


def test_lines_that_decide_between_equal_times_are_data(plays: Path, tmp_path: Path) -> None:
    lines = [",".join([*line.split(",")[:2], "5"]) for line in lines_of(plays)]
    rewrite(plays, lines)
    experiment = small("fedmf", plays, rounds=1)
    run(experiment, tmp_path / "one")
    rewrite(plays, lines[::-1])
    said = refusal(lambda: recommend(tmp_path / "one", user=lines[0].split(",")[0]))
    assert "the split differs: the lines stand in another order" in said


def test_repeated_pairs_come_back_to_their_places(plays: Path, tmp_path: Path) -> None:
    """Under a protocol that keeps repeats, two rows of one pair lie in two parts."""
    lines = lines_of(plays)
    user, item, time = lines[0].split(",")
    lines = [*lines, f"{user},{item},{int(time) + 9000}"]
    rewrite(plays, lines)
    experiment = small("pfedrec", plays, rounds=1, protocol="paper")
    result = run(experiment, tmp_path / "one")
    natural = prepare(experiment)
    shuffled(plays)
    again = prepare_again(experiment, RunFolder(tmp_path / "one"), result)
    for view in ("positives", "hidden_from_negatives"):
        one, two = (getattr(data.split.train, view) for data in (natural, again))
        assert np.array_equal(one.start_U1, two.start_U1)
        assert np.array_equal(one.item_N, two.item_N)
    for part in ("valid", "test"):
        one, two = (getattr(data.split, part) for data in (natural, again))
        for lists in ("relevant", "masked", "sampled"):
            assert np.array_equal(getattr(one, lists).item_N, getattr(two, lists).item_N), lists


def test_runs_in_two_orders_of_lines_are_not_put_side_by_side(plays: Path, tmp_path: Path) -> None:
    """Users are paired by their codes, and sampled candidates are drawn by those of items."""
    run(small("fedmf", plays, rounds=1), tmp_path / "one")
    shuffled(plays)
    run(small("popularity", plays), tmp_path / "two")
    said = refusal(lambda: compare([tmp_path / "one", tmp_path / "two"]))
    assert "do not compare" in said
    assert "its lines stood in another order" in said


def test_the_digest_stands_from_the_beginning_and_in_every_record(
    plays: Path, tmp_path: Path
) -> None:
    experiment, out = small("fedmf", plays), tmp_path / "one"
    stopped(experiment, out)
    mark = prepare(experiment).digest.reading(()).value
    for place in ("last", "best"):
        sidecar = json.loads((out / "checkpoint" / place / "state.json").read_text())
        assert sidecar["note"]["data"] == mark
    record = DataRecord.read(RunFolder(out))
    assert record is not None
    assert record.digest.value == mark
    result = run(experiment, out, resume=True)
    assert result.data.users == record.digest.users
    assert json.loads((out / "model" / "state.json").read_text())["note"]["data"] == mark


def test_a_checkpoint_of_other_data_is_refused(plays: Path, tmp_path: Path) -> None:
    experiment = small("fedmf", plays)
    stopped(experiment, tmp_path / "one")
    rewrite(plays, reversed_times(lines_of(plays)))
    stopped(experiment, tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "checkpoint")
    shutil.copytree(tmp_path / "one" / "checkpoint", tmp_path / "two" / "checkpoint")
    said = refusal(lambda: run(experiment, tmp_path / "two", resume=True))
    assert "was made on other data" in said


@pytest.mark.parametrize("name", ["fedmf", "fedspectral", "mf"])
def test_a_checkpoint_of_other_settings_is_refused(name: str, plays: Path, tmp_path: Path) -> None:
    """Somebody edits experiment.toml of a run that has begun, and continues it."""
    out = tmp_path / "one"
    stopped(small(name, plays), out)
    other = small(name, plays, seed=7)
    (out / "experiment.toml").write_text(dumps(other), encoding="utf-8")
    said = refusal(lambda: run(other, out, resume=True))
    assert "was made with other settings than experiment.toml says" in said


def test_the_best_round_of_another_run_is_refused(plays: Path, tmp_path: Path) -> None:
    """Both have chosen round 2, the only one that was validated, so its number tells nothing."""
    one, two = tmp_path / "one", tmp_path / "two"
    experiments = [small("fedmf", plays, seed=seed, sets=["evaluate_every=2"]) for seed in (0, 1)]
    for experiment, out in zip(experiments, (one, two), strict=True):
        stopped(experiment, out)
    shutil.rmtree(one / "checkpoint" / "best")
    shutil.copytree(two / "checkpoint" / "best", one / "checkpoint" / "best")
    said = refusal(lambda: run(experiments[0], one, resume=True))
    assert "its best round is one of another run" in said


def as_old(out: Path) -> None:
    """The folder as a version before records and checksums left it."""
    shutil.rmtree(out / "data")
    (out / "checksums.json").unlink()
    result = json.loads((out / "run.json").read_text())
    for key in ("format", "data", "kind", "device", "cautions"):
        del result[key]
    result["engine"] = result["engine"]["text"]
    del result["privacy"]["view"]
    (out / "run.json").write_text(json.dumps(result, indent=1))
    if not (out / "model").exists():  # a central method keeps none
        return
    state = json.loads((out / "model" / "state.json").read_text())
    for key in ("format", "seal"):
        del state[key]
    (out / "model" / "state.json").write_text(json.dumps({**state, "note": {}}))


def test_older_runs_are_read_with_a_note(plays: Path, tmp_path: Path) -> None:
    experiment, out = small("fedmf", plays, rounds=1), tmp_path / "one"
    run(experiment, out)
    user = lines_of(plays)[0].split(",")[0]
    before = scores_of(out, [user])
    as_old(out)
    assert RunFolder(out).is_old
    assert scores_of(out, [user]) == before
    assert OLD in evaluate(out).notes
    rewrite(plays, without_a_person(lines_of(plays)))
    assert "has changed since the run" in refusal(lambda: recommend(out, user=user))


def test_older_runs_give_nobody_the_list_of_somebody_else(plays: Path, tmp_path: Path) -> None:
    """Without ids beside the model a file in another order is refused, by whoever reads it."""
    out, second = tmp_path / "one", tmp_path / "several" / "fedmf" / "seed0"
    experiment = small("fedmf", plays, rounds=1)
    for place in (out, second):
        run(experiment, place)
        as_old(place)
    user = lines_of(plays)[0].split(",")[0]
    shuffled(plays)
    for again in (
        lambda: recommend(out, user=user),
        lambda: evaluate(out),
        lambda: run(experiment, out, resume=True),
        lambda: DataNow().require(experiment, RunFolder(second)),
    ):
        said = refusal(again)
        assert "users and items stand in another order" in said


@pytest.mark.parametrize("split", ["random", "ratio", "cold", "cold_together"])
def test_older_runs_of_any_split_are_known_by_their_ranks(split: str, tmp_path: Path) -> None:
    experiment, out = resolve("popularity", split=split), tmp_path / "one"
    result = run(experiment, out)
    as_old(out)
    assert run(experiment, out, resume=True).metrics == result.metrics
    assert evaluate(out).metrics.full["HR@10"] == result.metrics.full["HR@10"]


def test_older_runs_that_lost_their_ranks_are_refused(plays: Path, tmp_path: Path) -> None:
    experiment, out = small("fedmf", plays, rounds=1), tmp_path / "one"
    run(experiment, out)
    as_old(out)
    (out / "ranks.parquet").unlink()
    said = refusal(lambda: run(experiment, out, resume=True))
    assert "ranks.parquet' is damaged or lost" in said


def test_older_unfinished_runs_are_not_continued(plays: Path, tmp_path: Path) -> None:
    experiment, out = small("fedmf", plays), tmp_path / "one"
    stopped(experiment, out)
    shutil.rmtree(out / "data")
    said = refusal(lambda: run(experiment, out, resume=True))
    assert "has no record of its data" in said


def test_a_feature_table_is_data_for_who_reads_it() -> None:
    rows = Interactions.from_ids(["u", "u", "v"], ["a", "b", "a"], time=[1, 2, 3])
    part_N = np.zeros(3, np.int8)

    def dataset(value: float) -> Dataset:
        table = FeatureTable(np.full((2, 3), value, np.float32), np.ones(2, bool))
        return Dataset("few", rows, Modalities({"text": table}))

    one, two = (digest_of(dataset(value), part_N) for value in (1.0, 2.0))
    assert one.changes(two) == "its feature table 'text' differs"
    assert one.changes(replace(two, content={})) == "its feature table 'text' is gone"
    assert one.reading(()).changes(two) is None  # it reads ids alone
    assert replace(one, content={}).changes(one) is None  # a table that joined since


def test_order_is_no_part_of_any_other_digest() -> None:
    data = ragged()
    part_N = part_of_rows(data, SplitRule())
    chooser = np.random.default_rng(0)
    rows, places = data.interactions, chooser.permutation(len(data.interactions))
    names = [rows.users[code] for code in rows.user_N[places]]
    items = [rows.items[code] for code in rows.item_N[places]]
    assert rows.time_N is not None
    other = Interactions.from_ids(names, items, time=rows.time_N[places])
    one, two = digest_of(data, part_N), digest_of(Dataset("x", other), part_N[places])
    assert one.order != two.order
    assert replace(one, order="") == replace(two, order="")
    flipped = part_N.copy()
    flipped[0] = 2 - flipped[0]
    assert digest_of(data, flipped).split != one.split


def test_the_planted_dataset_has_a_record_too(tmp_path: Path) -> None:
    run(resolve("pfedrec", plugins=["ridge"], rounds=1), tmp_path / "one")
    record = DataRecord.read(RunFolder(tmp_path / "one"))
    assert record is not None
    assert set(record.digest.content) == {"text"}


def test_a_run_that_keeps_no_model_keeps_no_ids(plays: Path, tmp_path: Path) -> None:
    experiment, out = small("fedmf", plays, rounds=1), tmp_path / "one"
    run(experiment, out, keep_model=False)
    assert [path.name for path in (out / "data").iterdir()] == ["digest.json"]
    shuffled(plays)
    answer = evaluate(out)
    assert answer.breakdown is None
    assert "stand in another order" in answer.notes[0]
    rewrite(plays, reversed_times(lines_of(plays)))
    assert "the split differs" in refusal(lambda: run(experiment, out, resume=True))
