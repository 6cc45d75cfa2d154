"""`tacit evaluate` and `tacit recommend` on finished runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def finished(tacit, small):
    said = tacit("train", "fedmf", *small, "--rounds", 2, "--out", "one", "--json")
    return json.loads(said.out)


def test_evaluate_agrees_with_the_run(tacit, finished):
    said = tacit("evaluate", "one", "--metrics", "HR@10,NDCG@20,MAP@20", "--json")
    answer = json.loads(said.out)
    for kind in ("full", "sampled99"):
        for name in ("HR@10", "NDCG@20"):
            assert answer["metrics"][kind][name] == finished["metrics"][kind][name]
    # one held-out item each, so MAP lies between 0 and the hit rate
    assert 0 < answer["metrics"]["full"]["MAP@20"] < finished["metrics"]["full"]["HR@20"]
    for part in ("warm", "unseen"):
        assert answer["breakdown"][part]["held_out"] == finished["breakdown"][part]["held_out"]
    assert answer["breakdown"]["warm"]["full"]["HR@10"] == pytest.approx(
        finished["breakdown"]["warm"]["full"]["HR@10"], abs=1e-12
    )


def test_evaluate_prints_a_table(tacit, finished):
    said = tacit("evaluate", "one", "--metrics", "HR@10")
    assert f"{finished['metrics']['full']['HR@10']:.4f}" in said.out
    assert "ties expected" in said.out
    pessimistic = tacit("evaluate", "one", "--ties", "pessimistic")
    assert "ties pessimistic" in pessimistic.out


def test_evaluate_pessimistic_is_never_higher(tacit, small):
    tacit("train", "popularity", *small, "--out", "counts")
    rules = [
        json.loads(tacit("evaluate", "counts", "--ties", rule, "--json").out)["metrics"]["full"]
        for rule in ("expected", "pessimistic")
    ]
    assert all(rules[0][name] >= rules[1][name] for name in rules[0])
    assert rules[0] != rules[1]  # popularity ties items


def test_evaluate_without_the_data(tacit, plays, tmp_path):
    copy = tmp_path / "copy.csv"
    copy.write_text(plays.read_text())
    flags = ["--data", copy, "--columns", "user=listener,item=song,time=played"]
    tacit("train", "popularity", *flags, "--out", "one")
    copy.unlink()
    answer = json.loads(tacit("evaluate", "one", "--json").out)
    assert answer["breakdown"] is None
    assert "No breakdown by seen and unseen items: There is no source" in answer["notes"][0]
    assert answer["metrics"]["full"]["HR@10"] > 0


def test_evaluate_after_the_data_changed(tacit, plays, tmp_path):
    copy = tmp_path / "copy.csv"
    copy.write_text(plays.read_text())
    flags = ["--data", copy, "--columns", "user=listener,item=song,time=played"]
    tacit("train", "popularity", *flags, "--out", "one")
    copy.write_text("\n".join(plays.read_text().splitlines()[:-50]) + "\n")
    said = tacit("evaluate", "one", "--json")
    assert (said.code, said.out) == (2, "")
    assert "has changed since the run at 'one': it has " in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--metrics", "HIT@10"], "Unknown metric 'HIT'"),
        (["--metrics", "HR@0"], "cut-off"),
        (["--metrics", ","], "No metric is named"),
        (["--ties", "lucky"], "'expected' or 'pessimistic'"),
    ],
)
def test_evaluate_mistakes(tacit, small, flags, words):
    tacit("train", "popularity", *small, "--out", "one")
    said = tacit("evaluate", "one", *flags)
    assert (said.code, said.out) == (2, "")
    assert words in said.err


def test_evaluate_of_what_is_no_run(tacit, small):
    Path("empty").mkdir()
    assert "there is no experiment.toml" in tacit("evaluate", "empty").err
    tacit("train", "popularity", *small, "--out", "one")
    Path("one", "ranks.parquet").write_bytes(b"not parquet")
    assert "'one/ranks.parquet' is damaged" in tacit("evaluate", "one").err
    Path("one", "run.json").unlink()
    assert "is not finished" in tacit("evaluate", "one").err


def test_recommend_for_a_known_person(tacit, finished, plays):
    rows = [line.split(",") for line in plays.read_text().splitlines()[1:]]
    person = rows[0][0]
    own = {item for user, item, _ in rows if user == person}
    said = tacit("recommend", "one", "--user", person, "-k", 4, "--json")
    items = json.loads(said.out)["items"]
    assert [line["rank"] for line in items] == [1, 2, 3, 4]
    assert own.isdisjoint(line["item"] for line in items)
    scores = [line["score"] for line in items]
    assert scores == sorted(scores, reverse=True)
    assert items[0]["item"] in tacit("recommend", "one", "--user", person).out


def test_explanations_in_words_and_fields(tacit, tmp_path):
    small = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
    sets = [flag for one in small for flag in ("--set", one)]
    out = tmp_path / "fused"
    said = tacit("train", "fcf", "--with", "fedmr", *sets, "--rounds", 1, "--out", out)
    assert said.code == 0, said.err
    words = tacit("recommend", out, "--user", "user-3", "-k", 2, "--explain").out
    lines = json.loads(
        tacit("recommend", out, "--user", "user-3", "-k", 2, "--explain", "--json").out
    )["items"]
    for line in lines:
        reason = line["reason"]
        assert list(reason["views"]) == ["sum", "perceptron", "gate"]
        assert list(reason["input_lifts"]) == ["id", "text", "image"]
        assert reason["rests_on"] in (None, *reason["inputs"])
        assert f"{line['item']}: {reason['sentence']}" in words


def test_a_history_explains_in_words_and_fields(tacit, tmp_path):
    out, file = tmp_path / "next", tmp_path / "history.txt"
    assert tacit("train", "fednext", "--rounds", 1, "--out", out).code == 0
    file.write_text("item-3\nitem-7\nitem-1\n")
    for who in (("--user", "user-3"), ("--history", file)):
        words = tacit("recommend", out, *who, "-k", 2, "--explain")
        assert words.code == 0, words.err
        assert "Percentages are of all" in words.out.splitlines()[-1]
        lines = json.loads(tacit("recommend", out, *who, "-k", 2, "--explain", "--json").out)
        for line in lines["items"]:
            reason = line["reason"]
            assert f"{line['item']}: {reason['sentence']}" in words.out
            total = sum(one["contribution"] for one in reason["history"])
            assert abs(total - line["score"]) < 1e-4
            assert 1 <= len(reason["carried_by"]) <= 3


def test_there_is_nothing_to_explain_of_ids(tacit, finished, plays):
    person = plays.read_text().splitlines()[1].split(",")[0]
    said = tacit("recommend", "one", "--user", person, "-k", 2, "--explain")
    assert said.code == 0
    assert "reads nothing of an item but its id" in said.out.splitlines()[-1]
    answer = json.loads(tacit("recommend", "one", "--user", person, "--explain", "--json").out)
    assert "nothing else to explain" in answer["note"]
    assert (
        "reason"
        not in json.loads(tacit("recommend", "one", "--user", person, "--json").out)["items"][0]
    )


def test_recommend_for_a_new_person(tacit, finished, plays):
    items = sorted({line.split(",")[1] for line in plays.read_text().splitlines()[1:]})
    Path("mine.txt").write_text("\n".join(items[:5]) + "\n")
    said = tacit("recommend", "one", "--history", "mine.txt", "-k", 3, "--json")
    found = [line["item"] for line in json.loads(said.out)["items"]]
    assert len(found) == 3
    assert set(found).isdisjoint(items[:5])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--user", "nobody"], "No user 'nobody'"),
        (["--user", "user-1", "--history", "x"], "either --user ID or --history FILE"),
        (["--history", "x"], "No file at 'x'"),
        (["--user", "user-1", "-k", "0"], "at least 1"),
    ],
)
def test_recommend_mistakes(tacit, small, flags, words):
    tacit("train", "popularity", *small, "--out", "one")
    said = tacit("recommend", "one", *flags)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert words in said.err
