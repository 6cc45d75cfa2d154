"""A newcomer's own file: labels without times, few people, filters, odd titles, odd numbers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tacit.cli.output import one_sentence, printable
from tacit.data.load import load
from tacit.data.split import BY_LABELS
from tacit.errors import TacitError
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import COLD_SPLITS, SPLITS, resolve
from tacit.experiment.toml import dumps, loads

ESCAPE = "\x1b[2J\x1b]0;owned\x07"


def labelled(place: Path, *, users: int = 25, time: bool = False, header: str = "x_label") -> Path:
    """An MMRec folder: six things a person, the last two labelled as validation and test."""
    folder = place / "mm"
    folder.mkdir(parents=True)
    lines = [f"userID\titemID\t{header}" + ("\ttimestamp" if time else "")]
    for user in range(users):
        for step in range(6):
            item, label = (user + step) % 12, {4: 1, 5: 2}.get(step, 0)
            # by time another thing is the last one: the one labelled first
            lines.append(f"u{user}\t{item}\t{label}" + (f"\t{100 - step}" if time else ""))
    (folder / "mm.inter").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("header", ["x_label", "split_label"])
def test_labels_without_times_are_the_split(tacit, tmp_path, header):
    folder = labelled(tmp_path / header, header=header)
    said = tacit("train", "popularity", "--data", folder, "--out", "one")
    assert said.code == 0, said.err
    assert f"note      {BY_LABELS}" in said.out
    result = json.loads(Path("one", "run.json").read_text())
    assert result["notes"] == [BY_LABELS]
    assert result["split"].startswith("labels")
    assert "labels are the split" in Path("one", "report.html").read_text()
    chosen = tacit("train", "popularity", "--data", folder, "--split", "labels", "--out", "two")
    assert "note " not in chosen.out  # who says labels knows of them
    by_hand = json.loads(Path("two", "run.json").read_text())
    assert by_hand["metrics"] == result["metrics"]


def test_labels_beside_times_leave_the_default(tacit, tmp_path):
    folder = labelled(tmp_path, time=True)
    prepared = prepare(resolve("popularity", data=str(folder)))
    assert prepared.dataset.notes == ()
    rows, test = prepared.dataset.interactions, prepared.split.test
    latest = {(rows.users[u], rows.items[test.relevant[e][0]]) for e, u in enumerate(test.user_E)}
    assert latest == {(f"u{user}", str(user % 12)) for user in range(25)}  # label 0, latest time


def test_other_splits_of_a_labelled_file(tacit, tmp_path):
    folder = labelled(tmp_path)
    said = tacit("train", "popularity", "--data", folder, "--split", "global_time")
    assert said.code == 2
    assert "no timestamps" in said.err
    assert "--split labels, random, row or item_appearance" in said.err
    random = prepare(resolve("popularity", data=str(folder), split="random"))
    assert random.dataset.notes == ()


def test_compare_sweep_and_audit_say_how_it_was_split(tacit, tmp_path):
    folder = labelled(tmp_path, users=12)
    few = "Only 12 people can be evaluated on the test: a single one moves every share by 8%"
    commands = {
        "compare": ["popularity", "random", "--seeds", "1"],
        "sweep": ["fedmf", "--over", "local.epochs=1,2", "--rounds", "1"],
        "audit": ["popularity"],
    }
    for command, more in commands.items():
        said = tacit(command, *more, "--data", folder, "--out", command)
        assert said.code == 0, said.err
        assert f"note      {BY_LABELS}" in said.out
        assert f"note      {few}" in said.out
    assert few in Path("audit", "audit.html").read_text()


@pytest.mark.parametrize(("users", "warned"), [(19, True), (20, False)])
def test_fewer_than_twenty_people_are_a_caution(tacit, tmp_path, users, warned):
    lines = [f"u{u},i{(u + s) % 9},{s}" for u in range(users) for s in range(4)]
    (tmp_path / "few.csv").write_text("user,item,time\n" + "\n".join(lines) + "\n")
    said = tacit("train", "popularity", "--data", tmp_path / "few.csv", "--out", "one")
    assert said.code == 0, said.err
    assert ("note      Only 19 people can be evaluated" in said.out) == warned
    notes = json.loads(Path("one", "run.json").read_text())["notes"]
    assert bool(notes) == warned


def rated(place: Path) -> Path:
    rows = [(f"u{u}", f"i{(u + s) % 7}", 1 + (u + s) % 5, s) for u in range(30) for s in range(6)]
    rows += [("lonely", "i0", 5, 1), ("lonely", "once", 5, 2), ("lonely", "twice", 5, 3)]
    path = place / "rated.csv"
    lines = ["user,item,rating,time", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_ratings_and_cores_are_filtered(tacit, tmp_path):
    path = rated(tmp_path)
    flags = ["--min-rating", "2", "--core", "3"]
    said = tacit("data", "describe", path, *flags, "--json")
    rules = [step["rule"] for step in json.loads(said.out)["steps"]]
    assert rules[:2] == ["rating at least 2", "3-core of users and items"]
    by_hand = load(path, min_rating=2, core=3)
    assert "lonely" in load(path).interactions.users
    assert "lonely" not in by_hand.interactions.users
    assert by_hand.interactions.value_N.min() == 2

    assert tacit("train", "popularity", "--data", path, *flags, "--out", "one").code == 0
    result = json.loads(Path("one", "run.json").read_text())
    assert [step["rule"] for step in result["steps"]][:2] == rules[:2]
    assert result["counts"]["users"] == by_hand.interactions.n_users
    text = Path("one", "experiment.toml").read_text()
    assert "min_rating = 2.0" in text
    assert "core = 3" in text
    assert loads(text) == resolve("popularity", data=str(path), min_rating=2, core=3)
    again = tacit("train", "--config", "one/experiment.toml", "--core", "4", "--dry-run")
    assert "core = 4" in again.out
    assert "min_rating = 2.0" in again.out
    Path("short.toml").write_text('method = "popularity"\nmin_rating = 2\ncore = 3\n')
    short = tacit("train", "--config", "short.toml", "--data", path, "--dry-run")
    assert short.out == text


@pytest.mark.parametrize("command", ["compare", "sweep", "audit"])
def test_every_command_that_trains_takes_the_filters(tacit, tmp_path, command):
    methods = ["popularity", "random"] if command == "compare" else ["fedmf"]
    more = {"sweep": ["--over", "local.epochs=1,2"], "compare": ["--seeds", "1"], "audit": []}
    flags = [*methods, "--data", rated(tmp_path), *more[command], "--rounds", "1"]
    said = tacit(command, *flags, "--min-rating", "2", "--core", "3", "--out", "out")
    assert said.code == 0, said.err
    low = tacit(command, *flags, "--min-rating", "6", "--out", "low")
    assert low.code == 2
    assert "The rule 'rating at least 6' leaves nobody" in low.err


def test_filters_change_no_experiment_that_has_none():
    text = dumps(resolve("fedmf", data="ml-100k", min_user=5))
    assert "min_rating" not in text
    assert "core" not in text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--min-rating", "nan"], "The least rating is nan; it must be a finite number."),
        (["--min-rating", "9"], "leaves nobody"),
        (["--core", "0"], "The k of a k-core is 0"),
        (["--core", "9" * 25], "below 2,147,483,648"),
        (["--min-user", "9" * 5000], "Invalid value for '--min-user'"),
    ],
)
def test_filters_that_make_no_sense(tacit, tmp_path, flags, words):
    said = tacit("train", "popularity", "--data", rated(tmp_path), *flags)
    assert said.code == 2
    assert words in said.err
    assert len(said.err) < 2000


def test_ratings_must_be_there(tacit, plays):
    said = tacit(
        "train",
        "fedmf",
        "--data",
        plays,
        "--columns",
        "user=listener,item=song,time=played",
        "--min-rating",
        "3",
    )
    assert "has no ratings" in said.err


def test_rules_of_a_source_keep_their_order():
    from tacit.data.load import _together, own_rules
    from tacit.data.rules import KCore, MinRating, MinUser, PositiveRating

    own = own_rules(4.0, 3, 2)
    assert _together((PositiveRating(), MinUser(5)), own) == [
        MinRating(4.0),
        PositiveRating(),
        MinUser(3),
        KCore(2),
    ]
    assert _together((KCore(5),), own_rules(None, 3, None)) == [KCore(5), MinUser(3)]


@pytest.mark.parametrize("command", ["train", "compare", "sweep", "audit leaks", "audit privacy"])
def test_help_lists_every_split(tacit, command):
    said = tacit(*command.split(), "--help")
    words = set(re.findall(r"[a-z_]+", said.out))
    assert {*SPLITS, *COLD_SPLITS} <= words


def test_a_saved_experiment_takes_cold_splits(tacit):
    from tacit.experiment.resolve import override

    for split in COLD_SPLITS:
        fresh = resolve("fedmf", plugins=["ridge"], split=split)
        saved = override(resolve("fedmf", plugins=["ridge"], split="time"), split=split)
        assert saved.protocol == fresh.protocol


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose ids, titles and columns hold sequences that terminals obey."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    lines = [f'u{u},"{ESCAPE}i{(u + s) % 30}\n",{s}' for u in range(25) for s in range(5)]
    (folder / "interactions.csv").write_text(
        "user_id,item_id,timestamp\n" + "\n".join(lines) + "\n"
    )
    titles = [f'"{ESCAPE}i{k}","Alien{ESCAPE}\u202eevil\x9b31m {k}"' for k in range(30)]
    (folder / "items.csv").write_text(
        f"item_id,title{ESCAPE}\n".replace(ESCAPE, "") + "\n".join(titles)
    )
    return folder


def raw(text: str) -> list[str]:
    return [c for c in text if (not c.isprintable() or c == "\u202e") and c != "\n"]


def test_escape_sequences_of_a_file_are_not_obeyed(tacit, hostile):
    for command in (
        ["data", "describe", hostile],
        ["train", "popularity", "--data", hostile, "--out", "one"],
        ["recommend", "one", "--user", "u1"],
    ):
        said = tacit(*command)
        assert said.code == 0, said.err
        assert raw(said.out + said.err) == []
    assert "Alien\\u001b[2J" in said.out
    assert "\\u202eevil\\u009b31m" in said.out
    as_json = tacit("recommend", "one", "--user", "u1", "--json")
    assert "\x1b" not in as_json.out
    assert json.loads(as_json.out)["items"][0]["title"].startswith(f"Alien{ESCAPE}")
    unknown = tacit("recommend", "one", "--user", f"nobody{ESCAPE}")
    assert unknown.code == 2
    assert raw(unknown.err) == []


def test_escape_sequences_in_mistakes_are_not_obeyed(tacit, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text(f"who{ESCAPE},what{ESCAPE}\n1,2\n")
    said = tacit("data", "describe", bad)
    assert said.code == 2
    assert raw(said.err) == []
    assert "who\\u001b[2J" in said.err
    named = tacit("data", "describe", f"none{ESCAPE}.csv")
    assert named.code == 2
    assert raw(named.err) == []


def test_what_is_printed():
    assert printable("plain, 名前, café, 👩‍👩‍👧") == "plain, 名前, café, 👩‍👩‍👧"
    assert printable("a\tb\r\x00\x7f\u2028\ud800") == "a\\u0009b\\u000d\\u0000\\u007f\\u2028\\ud800"
    long = one_sentence("begin " + "x" * 100_000 + " end.")
    assert long.startswith("begin ")
    assert long.endswith(" end.")
    assert len(long) < 1600


HUGE = "9" * 5000
DEEP = "[" * 5000
ODD = {
    "rounds of 5,000 digits": (["--rounds", HUGE], "Invalid value for '--rounds'"),
    "seed of 5,000 digits": (["--seed", HUGE], "Invalid value for '--seed'"),
    "set of 5,000 digits": (["--set", f"rounds={HUGE}"], "rounds is '999"),
    "rate of 5,000 digits": (
        ["--set", f"local.items.rate={HUGE}"],
        "local.items has a rate of inf",
    ),
    "plug-in of 5,000 digits": (["--with", f"clip:bound={HUGE}"], "bound of Clip in the channel"),
    "deep set": (["--set", f"rounds={DEEP}"], "rounds is '[[["),
    "true rounds": (["--set", "rounds=true"], "rounds is True: input should be a valid number"),
    "true rate": (["--set", "local.items.rate=true"], "local.items.rate is True: input should"),
    "true bound": (["--set", "participation.ratio=false"], "participation.ratio is False"),
    "2^63 negatives": (["--set", f"sampling.negatives={2**63}"], "must lie between"),
    "2^62 negatives": (["--set", f"sampling.negatives={2**62}"], "and at most 1000000"),
    "2^63 candidates": (["--set", f"protocol.sampled={2**63}"], "must lie between"),
    "2^62 candidates": (["--set", f"protocol.sampled={2**62}"], "at most 1000000"),
    "2^62 rounds": (["--set", f"rounds={2**62}"], "it must be below 2147483648"),
    "2^62 as split seed": (["--set", f"protocol.split.seed={2**62}"], "protocol.split.seed is"),
    "negative candidate seed": (["--set", "protocol.candidate_seed=-1"], "candidate_seed is -1"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_numbers_get_a_sentence(tacit, name):
    flags, words = ODD[name]
    said = tacit("train", "fedmf", *flags)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert words in said.err
    assert len(said.err) < 2000
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'method = "fedmf"\nrounds = {HUGE}', "is not TOML: Exceeds the limit"),
        (f'method = "fedmf"\nx = {DEEP}', "is not TOML: maximum recursion depth"),
        ('method = "fedmf"\nrounds = true', "is True: input should be a valid"),
        ('method = "fedmf"\nparticipation = true', "is True: input should be a valid"),
        ('method = "fedmf"\nmin_rating = false', "is False: input should be a valid"),
        ('method = "fedmf"\nset.rounds = true', "rounds is True"),
        (f'method = "fedmf"\nset.sampling.negatives = {2**63}', "must lie between"),
        (f'method = "fedmf"\n{"k" * 9000} = 1', "Unknown key 'kkk"),
    ],
)
def test_odd_configurations_get_a_sentence(tacit, text, words):
    Path("odd.toml").write_text(text)
    said = tacit("train", "--config", "odd.toml")
    assert said.code == 2
    assert words in said.err
    assert len(said.err) < 2000


def test_saved_experiments_hold_no_truth_values_for_numbers():
    text = dumps(resolve("fedmf", rounds=3))
    for number in ("rounds = 3", "negatives = 4", "rate = 0.1", "ratio = 1.0"):
        assert number in text
        with pytest.raises(TacitError, match="is True: input should be a valid number"):
            loads(text.replace(number, number.split("=")[0] + "= true", 1))


def test_a_pipe_as_configuration_or_data_does_not_wait(tacit):
    os.mkfifo("pipe.toml")
    os.mkfifo("ratings.csv")
    for command in (
        ["train", "--config", "pipe.toml"],
        ["train", "fedmf", "--data", "ratings.csv"],
        ["data", "get", "pipe.toml"],
        ["data", "describe", "ratings.csv"],
    ):
        said = tacit(*command)
        assert said.code == 2
        assert "is a pipe (FIFO), not a file" in said.err


def test_too_little_memory_is_one_sentence(tacit, monkeypatch):
    def starve(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tacit.experiment.resolve.resolve", starve)
    said = tacit("train", "fedmf")
    assert said.code == 2
    assert "too little memory" in said.err
