"""Data in, recommendations out: `fit`, `Model`, `load`, and what they leave on the disk."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tacit
from tacit.cli.main import main
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.names import restored

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def rows() -> dict[str, list]:
    """Twelve people who each chose six of twenty items."""
    generator = np.random.default_rng(0)
    chosen = np.concatenate([generator.permutation(20)[:6] for _ in range(12)])
    return {
        "user": [f"u{n // 6}" for n in range(72)],
        "item": [f"i{code}" for code in chosen],
        "time": [n % 6 for n in range(72)],
        "rating": [1.0 + n % 5 for n in range(72)],
    }


# Frame in, recommendations out.


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frame_in_recommendations_out_twice(rows, library):
    """Five lines with the import, as in a cell of a notebook; run again they say the same."""
    cell = (
        "import tacit\n"
        "frame = library.DataFrame(rows)\n"
        "model = tacit.fit(frame, 'pfedrec', rounds=2)\n"
        "best = model.recommend('u3', k=4)\n"
        "lists.append(best)\n"
    )
    names: dict = {"library": library, "rows": rows, "lists": []}
    exec(cell, names)
    exec(cell, names)
    first, again = names["lists"]
    assert first.equals(again)
    assert first.columns == ["user", "rank", "item", "title", "score"]
    assert first["rank"].to_list() == [1, 2, 3, 4]
    had = {item for user, item in zip(rows["user"], rows["item"], strict=True) if user == "u3"}
    assert not had & set(first["item"])
    assert first["score"].is_sorted(descending=True)


def test_all_kinds_of_data_give_the_same_model(rows, tmp_path):
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "plays.csv")
    kinds = {
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": pd.DataFrame(rows),
        "columns": rows,
        "shuffled": frame.sample(fraction=1.0, shuffle=True, seed=1).sort("time"),
        "dataset": tacit.from_frame(frame),
        "path": tmp_path / "plays.csv",
        "path as text": str(tmp_path / "plays.csv"),
    }
    models = {name: tacit.fit(data, "popularity") for name, data in kinds.items()}
    names = {name: model.experiment.data.name for name, model in models.items()}
    in_memory = {name for kind, name in names.items() if not kind.startswith("path")}
    assert len(in_memory) == 1
    assert re.fullmatch("frame:[0-9a-f]{12}", in_memory.pop())
    assert names["path"] == str(tmp_path / "plays.csv")
    metrics = [model.metrics for name, model in models.items() if name != "shuffled"]
    assert all(one == metrics[0] for one in metrics)


def test_other_data_has_another_name(rows):
    frame = pl.DataFrame(rows)
    specs = [
        tacit.resolve("fedmf", data=data).data
        for data in (
            frame,
            frame.with_columns(rating=pl.col("rating") + 1),
            frame.with_columns(time=pl.col("time") + 1),
            frame.drop("rating"),
            frame[1:],
        )
    ]
    assert len({spec.name for spec in specs}) == len(specs)
    named = tacit.resolve("fedmf", data=frame.rename({"user": "who"}), columns={"user": "who"})
    assert named.data == tacit.resolve("fedmf", data=frame.select("user", "item")).data


def test_filters_reach_data_in_memory(rows):
    experiment = tacit.resolve("fedmf", data=rows, min_rating=3, split="random")
    assert prepare(experiment).dataset.interactions.value_N.min() == 3.0
    assert prepare(tacit.resolve("fedmf", data=rows)).dataset.interactions.value_N.min() == 1.0


def test_columns_that_pandas_labels_with_numbers(rows):
    frame = pd.DataFrame({0: rows["user"], 1: rows["item"], 2: rows["time"]})
    named = tacit.fit(frame, "popularity", columns={"user": "0", "item": "1", "time": "2"})
    assert named.users[0] == "u0"


# What a model answers.


@pytest.fixture(scope="module")
def model(rows) -> tacit.Model:
    return tacit.fit(rows, "pfedrec", rounds=2)


def test_scores_are_those_of_the_list(model):
    best = model.recommend("u3", k=5)
    scores = model.scores("u3", best["item"])
    assert scores.shape == (1, 5)
    assert scores[0].tolist() == best["score"].to_list()
    whole = model.scores(["u1", "u3"])
    assert whole.shape == (2, len(model.items))
    place = model.items.index(best["item"][0])
    assert whole[1, place] == scores[0, 0]


def test_several_people_in_one_frame(model):
    both = model.recommend(["u3", "u1"], k=2)
    assert both["user"].to_list() == ["u3", "u3", "u1", "u1"]
    assert both.filter(user="u1").equals(model.recommend("u1", k=2))


def test_whole_numbers_are_ids_too(rows):
    codes = {name: code for code, name in enumerate(dict.fromkeys(rows["user"]))}
    frame = pd.DataFrame(rows | {"user": [codes[name] for name in rows["user"]]})
    by_number = tacit.fit(frame, "popularity")
    assert by_number.recommend(3, k=2).equals(by_number.recommend("3", k=2))
    assert by_number.recommend(np.int64(3), k=2)["user"].to_list() == ["3", "3"]


def test_somebody_new(model):
    best = model.recommend(history=["i1", "i2"], k=3)
    assert best.columns == ["rank", "item", "title", "score"]
    assert not {"i1", "i2"} & set(best["item"])


def test_a_model_is_the_run(model):
    assert model.metrics == model.record.metrics.full
    assert model.experiment.rounds == 2
    assert model.users[:2] == ("u0", "u1")


# What stays on the disk, and for how long.


def test_a_temporary_folder_lives_as_long_as_its_model(rows):
    model = tacit.fit(rows, "popularity")
    folder = model.folder
    assert RunFolder(folder).finished
    model.recommend("u1")
    del model
    gc.collect()
    assert not folder.exists()


def test_a_run_that_fails_leaves_no_temporary_folder(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Stop(tacit.Callback):
        def round(self, number, loss):
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        tacit.fit(rows, "fedmf", rounds=2, callbacks=Stop())
    assert list(tmp_path.iterdir()) == []


def test_the_same_call_again_trains_nothing(rows, tmp_path):
    class Count(tacit.Callback):
        rounds = 0

        def round(self, number, loss):
            Count.rounds += 1

    out = tmp_path / "one"
    one = tacit.fit(rows, "fedmf", rounds=2, out=out, callbacks=Count())
    two = tacit.fit(pd.DataFrame(rows), "fedmf", rounds=2, out=out, callbacks=Count())
    assert Count.rounds == 2
    assert one.recommend("u1").equals(two.recommend("u1"))
    with pytest.raises(tacit.TacitError, match=r"holds another experiment .* choose another out="):
        tacit.fit(rows, "fedmf", rounds=3, out=out)


def test_a_run_that_was_stopped_goes_on(rows, tmp_path):
    class Stop(tacit.Callback):
        def begin(self, experiment, rounds, engine):
            self.seen = []

        def round(self, number, loss):
            self.seen.append(number)
            if number == 2 and self.seen[0] == 1:
                raise KeyboardInterrupt

    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        tacit.fit(rows, "fedmf", rounds=4, out=tmp_path / "one", callbacks=stop)
    model = tacit.fit(rows, "fedmf", rounds=4, out=tmp_path / "one")
    assert model.metrics == tacit.fit(rows, "fedmf", rounds=4).metrics


@pytest.mark.slow
def test_a_saved_model_is_whole_in_another_process(rows, tmp_path, capsys):
    model = tacit.fit(rows, "pfedrec", rounds=2)
    best = model.recommend("u3", k=3)
    path = model.save(tmp_path / "saved")
    assert model.save(tmp_path / "saved") == path  # a cell that is run twice
    program = (
        "import sys, tacit\n"
        "model = tacit.load(sys.argv[1])\n"
        "print(model.recommend('u3', k=3).write_json())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert pl.read_json(done.stdout.encode())["item"].to_list() == best["item"].to_list()
    assert main(["recommend", str(path), "--user", "u3", "-k", "3", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [line["item"] for line in items] == best["item"].to_list()
    assert main(["evaluate", str(path)]) == 0
    assert "note" not in capsys.readouterr().out
    moved = tacit.load(path).save(tmp_path / "again")
    assert tacit.load(moved).recommend("u3", k=3).equals(best)


def test_what_is_stored_and_when(rows, tmp_path):
    """Times and ratings are on the disk only once somebody says so."""
    model = tacit.fit(rows, "popularity", out=tmp_path / "one")
    assert not RunFolder(tmp_path / "one").stored_data_dir.exists()
    with pytest.raises(tacit.TacitError, match="was data in the memory of another program"):
        tacit.load(tmp_path / "one").recommend("u1")
    model.save(tmp_path / "one")  # into its own folder
    stored = pl.read_parquet(RunFolder(tmp_path / "one").stored_data_dir / "interactions.parquet")
    assert stored["value"].to_list() == rows["rating"]
    assert tacit.load(tmp_path / "one").recommend("u1").equals(model.recommend("u1"))
    named = tacit.fit("planted", "popularity").save(tmp_path / "two")
    assert not RunFolder(named).stored_data_dir.exists()


def test_content_and_titles_are_stored_with_the_data(tmp_path):
    dataset = tacit.load_data("planted")
    path = tacit.fit(dataset, "fedvbpr", rounds=1).save(tmp_path / "one")
    again = prepare(tacit.load(path).experiment).dataset
    assert again.texts == dataset.texts
    for name, table in dataset.modalities.items():
        assert np.array_equal(again.modalities[name].value_IF, table.value_IF)
        assert np.array_equal(again.modalities[name].present_I, table.present_I)
    assert tacit.load(path).recommend("user-0", k=1)["title"][0]


@pytest.mark.parametrize("name", ["interactions.parquet", "items.parquet", "dataset.json"])
def test_stored_data_that_was_changed_is_refused(rows, tmp_path, name):
    path = tacit.fit(rows, "popularity").save(tmp_path / "one")
    file = RunFolder(path).stored_data_dir / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(tacit.TacitError, match="is damaged"):
        tacit.load(path).recommend("u1")


def test_nothing_is_saved_over_anything_else(rows, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    model = tacit.fit(rows, "popularity")
    with pytest.raises(tacit.TacitError, match="holds something else than this model"):
        model.save(tmp_path / "notes")
    other = tacit.fit(rows, "random").save(tmp_path / "other")
    with pytest.raises(tacit.TacitError, match="holds something else than this model"):
        model.save(other)
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"


def test_compare_takes_the_same_data(rows, tmp_path):
    tables = [
        tacit.compare(["popularity", "random"], tmp_path / "both", data=data, seeds=1)
        for data in (rows, pd.DataFrame(rows))
    ]
    assert tables[0].dataset.startswith("frame:")
    assert [row.value for row in tables[0].rows] == [row.value for row in tables[1].rows]


# Mistakes, in the words of who made them.

MISTAKES = {
    "method": (lambda rows: tacit.fit(rows, "pfedrek"), "did you mean 'pfedrec'"),
    "rounds": (lambda rows: tacit.fit(rows, rounds=0), "rounds is 0; it must be at least 1."),
    "half a round": (
        lambda rows: tacit.fit(rows, "fedmf", rounds=2.0),
        "rounds is 2.0; give a whole number.",
    ),
    "rounds as text": (lambda rows: tacit.fit(rows, "fedmf", rounds="3"), "rounds is '3'; give"),
    "half a thread": (lambda rows: tacit.fit(rows, threads=1.5), "threads is 1.5; give a whole"),
    "no plug-ins": (lambda rows: tacit.fit(rows, plugins=None), "plugins is None; give a list"),
    "callback class": (
        lambda rows: tacit.fit(rows, "popularity", callbacks=tacit.Callback),
        "give values of tacit.Callback.",
    ),
    "no seed": (lambda rows: tacit.fit(rows, "fedmf", seed=None), "seed is None; give a whole"),
    "no method": (lambda rows: tacit.fit(rows, None), "The method is None; give its name"),
    "one plug-in": (
        lambda rows: tacit.fit(rows, "fedmf", plugins="clop"),
        "Unknown plug-in 'clop'",
    ),
    "one setting": (
        lambda rows: tacit.fit(rows, "fedmf", sets="rate"),
        "Cannot read sets=['rate']",
    ),
    "callback": (
        lambda rows: tacit.fit(rows, "popularity", callbacks=[1]),
        "A callback is 1; give values of tacit.Callback.",
    ),
    "lengths": (
        lambda rows: tacit.fit({"user": ["ann"], "item": ["tea", "jam"]}),
        "Columns of 'frame' have different lengths (user 1, item 2); give one value",
    ),
    "a column twice": (
        lambda rows: tacit.fit(
            pd.concat([pd.DataFrame(rows), pd.DataFrame(rows)[["user"]]], axis=1)
        ),
        "The frame names column 'user' twice; rename one of them.",
    ),
    "an empty frame": (lambda rows: tacit.fit(pl.DataFrame()), "it has none at all: say which"),
    "half an item": (
        lambda rows: tacit.fit(rows, "popularity").recommend("u1", 1.5),
        "k is 1.5; give a whole number.",
    ),
    "metric": (
        lambda rows: tacit.fit(rows, "popularity").metrics["HR@11"],
        "No metric 'HR@11' was measured; did you mean 'HR@1",
    ),
    "columns": (
        lambda rows: tacit.fit({"who": ["a"], "what": ["b"]}),
        "for example columns={'user': 'NAME', 'item': 'NAME', 'time': 'NAME'}.",
    ),
    "no column": (
        lambda rows: tacit.fit(rows, columns={"user": "whom"}),
        "'frame' has no column 'whom'",
    ),
    "role": (lambda rows: tacit.fit(rows, columns={"users": "user"}), "no column role 'users'"),
    "no frame": (lambda rows: tacit.fit(7), "A int has no named columns"),
    "dataset": (
        lambda rows: tacit.fit(tacit.from_frame(rows), columns={"user": "user"}),
        "leave out columns=.",
    ),
    "plugins": (
        lambda rows: tacit.fit(rows, "gpfedrec", plugins=["clip", "fedmr"]),
        "drop plugins=['clip']",
    ),
    "sets": (lambda rows: tacit.fit(rows, sets=["rate"]), "Cannot read sets=['rate']"),
    "times": (
        lambda rows: tacit.fit({"user": rows["user"], "item": rows["item"]}),
        "use split='random', row or item_appearance.",
    ),
    "device": (lambda rows: tacit.fit(rows, "fedmf", device="cuda"), "device='cpu'"),
    "k": (lambda rows: tacit.fit(rows, "popularity").recommend("u1", 0), "k is 0; ask for"),
    "user": (lambda rows: tacit.fit(rows, "popularity").recommend("ann"), "No user 'ann'"),
    "item": (lambda rows: tacit.fit(rows, "popularity").scores("u1", "tea"), "No item 'tea'"),
    "nobody": (lambda rows: tacit.fit(rows, "popularity").recommend(), "either user= or history="),
    "history": (
        lambda rows: tacit.fit(rows, "popularity").recommend(history=["tea"]),
        "Item 'tea' (entry 1 of 'the history') is not in the catalogue",
    ),
    "no history": (
        lambda rows: tacit.fit(rows, "popularity").recommend(history=[]),
        "The history is empty",
    ),
    "data to load": (lambda rows: tacit.load("planted"), "read it with tacit.load_data."),
    "nothing to load": (lambda rows: tacit.load("nowhere"), "No run at 'nowhere'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_about_arguments(name, rows):
    act, said = MISTAKES[name]
    if name == "device" and __import__("torch").cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(tacit.TacitError) as caught:
        act(rows)
    sentence = str(caught.value)
    assert said in sentence
    assert "\n" not in sentence
    assert not re.search(r"(?<!\w)--[a-z]", sentence)


def test_the_command_line_speaks_of_flags(rows, tmp_path, capsys):
    pl.DataFrame(rows).rename({"user": "who", "item": "what"}).write_csv(tmp_path / "plays.csv")
    assert main(["train", "fedmf", "--data", str(tmp_path / "plays.csv")]) == 2
    assert "--columns user=NAME,item=NAME,time=NAME." in capsys.readouterr().err
    assert main(["train", "gpfedrec", "--with", "clip"]) == 2
    assert "drop --with clip." in capsys.readouterr().err
    with pytest.raises(tacit.TacitError, match="plugins="):  # and Python of arguments, still
        tacit.resolve("gpfedrec", plugins=["clip"])


def test_numbers_of_numpy_are_whole_numbers(rows, tmp_path):
    asked = {"rounds": np.int64(2), "seed": np.int32(1), "threads": np.int64(1)}
    model = tacit.fit(rows, "fedmf", out=tmp_path / "one", **asked)
    assert (model.record.rounds, model.experiment.seed) == (2, 1)
    assert len(model.recommend("u1", k=np.int64(2))) == 2


def test_a_column_that_nobody_asked_for_may_stand_there_twice(rows):
    frame = pd.DataFrame(rows)
    twice = pd.concat([frame.assign(x=1), frame.assign(x=2)[["x"]]], axis=1)
    assert tacit.fit(twice, "popularity").metrics == tacit.fit(frame, "popularity").metrics


def test_arguments_of_a_plug_in_may_have_any_name():
    def plug(method, what: float = 1.0):
        return method

    with restored():
        tacit.PLUGINS["plug"] = tacit.Plugin(plug, "nothing")
        assert tacit.resolve("fedmf", plugins=["plug:what=2"]).plugins == ("plug:what=2",)


# Values as they are printed.


def test_every_public_value_fits_a_screen(model, rows, tmp_path):
    dataset = tacit.load_data("planted")
    experiment = tacit.resolve("pfedrec")
    prepared = prepare(experiment)
    values = [
        dataset,
        dataset.interactions,
        dataset.modalities,
        dataset.modalities["text"],
        experiment,
        experiment.method,
        experiment.protocol,
        experiment.data,
        tacit.resolve("fedmf", data=rows).data,
        prepared,
        prepared.split,
        prepared.split.train,
        prepared.split.train.positives,
        prepared.split.test,
        model,
        model.metrics,
        model.recommend("u1"),
        tacit.compare(["popularity", "random"], tmp_path / "both", data=rows, seeds=1),
        *tacit.recommend(tacit.fit(rows, "popularity").save(tmp_path / "one"), user="u1", k=1),
    ]
    for value in values:
        text = repr(value)
        assert len(text) < 1600, type(value)
        assert text.count("\n") < 24, type(value)
    assert repr(dataset) == (
        "Dataset('planted': 300 users, 240 items, 7,458 interactions; text, image)"
    )
    assert repr(experiment) == "Experiment(pfedrec on planted, protocol clean, 100 rounds, seed 0)"


@pytest.mark.parametrize("method", ["fedmf", "ease", "fedease"])
def test_many_people_read_the_model_once(method, monkeypatch):
    from tacit.experiment import recommend

    model = tacit.fit("planted", method, rounds=2)
    calls = {"load_model": 0, "scorer_of": 0}

    def counted(name):
        real = getattr(recommend, name)

        def call(*given, **named):
            calls[name] += 1
            return real(*given, **named)

        return call

    for name in calls:
        monkeypatch.setattr(recommend, name, counted(name))
    together = model.scores(["user-1", "user-2", "user-3"])
    assert max(calls.values()) == 1
    alone = tacit.load(model.folder).scores("user-2")
    assert np.array_equal(together[1], alone[0])
