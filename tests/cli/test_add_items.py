"""`tacit add-items`: from titles and pictures to a place in somebody's list, and mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from tacit.data.planted import planted_dataset
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run

OTHER = planted_dataset(seed=5)  # another dataset of the same words and figures


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "one"
    plugins = ["ridge:modalities=text+image"]
    run(resolve("pfedrec", plugins=plugins, rounds=2, split="time"), out)
    return out


@pytest.fixture
def here(tacit, trained: Path) -> Path:
    """A finished run called `one`, ten drawn items in `new.csv` and `pictures`."""
    shutil.copytree(trained, "one")
    ids = [f"new-{number}" for number in range(10)]
    texts = {name: list(said[:10]) for name, said in OTHER.texts.items()}
    texts["title"][8] = texts["description"][8] = ""
    pl.DataFrame({"item_id": ids, **texts}).write_csv("new.csv")
    Path("pictures").mkdir()
    for number, name in enumerate(ids[:8]):
        Image.fromarray(OTHER.truth["image_IHWC"][number]).save(f"pictures/{name}.png")
    return Path.cwd()


ADD = ["add-items", "one", "--items", "new.csv"]
BOTH = [*ADD, "--text", "title,description", "--images", "pictures"]


@pytest.mark.usefixtures("here")
def test_from_content_to_a_list(tacit):
    said = tacit(*BOTH)
    assert said.code == 0, said.err
    assert said.out.splitlines() == [
        "version   1, 10 new items: one/catalogue/version-0001.safetensors",
        "text      ngrams of title, description: 9 of 10 items",
        "image     colours: 8 of 10 items",
        "mean      1 without content stand for the mean item: new-8",
        "next      tacit recommend one --user ID",
    ]
    shown = json.loads(tacit("recommend", "one", "--user", "user-3", "-k", 300, "--json").out)
    new = [line for line in shown["items"] if line["new"]]
    assert {line["item"] for line in new} == {f"new-{number}" for number in range(10)}
    titles = {line["item"]: line["title"] for line in new}
    assert titles["new-0"] == OTHER.texts["title"][0]
    assert titles["new-8"] is None
    best = next(line["rank"] for line in new)
    lines = tacit("recommend", "one", "--user", "user-3", "-k", best).out.splitlines()
    marked = [line for line in lines if " new " in line]
    assert len(marked) == 1
    assert new[0]["item"] in marked[0]


@pytest.mark.usefixtures("here")
def test_json_and_a_second_version(tacit):
    said = json.loads(tacit(*BOTH, "--json").out)
    assert (said["version"], said["without_content"], said["unused"]) == (1, ["new-8"], [])
    assert said["tables"]["image"]["without"] == ["new-8", "new-9"]
    Path("new.csv").write_text("id,title\nlater,The Tidal Reef\n")
    said = json.loads(tacit(*ADD, "--id", "id", "--json").out)
    assert (said["version"], said["ids"]) == (2, ["later"])
    assert said["tables"]["text"]["columns"] == ["title"]
    sidecar = json.loads(Path("one/catalogue/version-0002.json").read_text())
    assert (sidecar["ids"], sidecar["titles"]) == (["later"], ["The Tidal Reef"])
    assert sidecar["tables"]["text"]["encoder"] == "ngrams"


@pytest.mark.usefixtures("here")
def test_explain_has_no_reason_for_new_items(tacit):
    small = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
    sets = [flag for one in small for flag in ("--set", one)]
    plugins = ["--with", "fedmr", "--with", "ridge", "--split", "time"]
    assert tacit("train", "fcf", *plugins, *sets, "--rounds", 1, "--out", "fused").code == 0
    assert tacit("add-items", "fused", "--items", "new.csv", "--images", "pictures").code == 0
    said = tacit("recommend", "fused", "--user", "user-3", "-k", 300, "--explain")
    assert said.code == 0, said.err
    assert "new-1: did not exist in training" in said.out
    shown = json.loads(
        tacit("recommend", "fused", "--user", "user-3", "-k", 300, "--explain", "--json").out
    )
    assert all((line["reason"] is None) == line["new"] for line in shown["items"])


MISTAKES = {
    "no file": (["add-items", "one", "--items", "no.csv"], "no file of items at 'no.csv'"),
    "no column": ([*ADD, "--text", "titel"], "no column 'titel'; did you mean 'title'"),
    "no ids": ([*ADD, "--id", "sku"], "no column 'sku'"),
    "no folder": ([*ADD, "--images", "nowhere"], "no folder of pictures at 'nowhere'"),
    "encoder": ([*ADD, "--encoder", "ngrms"], "Unknown encoder 'ngrms'; did you mean 'ngrams'"),
    "other encoder": ([*ADD, "--encoder", "minilm"], "made by ngrams, and minilm would give"),
    "spelling": ([*ADD, "--features", "text"], "write NAME=FILE.npy"),
    "no table": ([*ADD, "--features", "sound=x.npy"], "no table called 'sound'"),
    "no run": (["add-items", "nowhere", "--items", "new.csv"], "No run at 'nowhere'"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_sentence(tacit, name):
    arguments, words = MISTAKES[name]
    said = tacit(*arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not Path("one", "catalogue").exists()


FILES = {
    "empty": ("", "'new.csv' is empty"),
    "no rows": ("item_id,title\n", "holds no items"),
    "no id column": ("name,title\nx,Reef\n", "no column 'item_id'"),
    "no content": ("item_id,name\nx,Reef\n", "nothing to read of the new items"),
    "twice": ("item_id,title\nx,Reef\nx,Reef\n", "Item 'x' stands twice"),
    "known": ("item_id,title\nitem-7,Reef\n", "Item 'item-7' is in the run's training catalogue"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", FILES)
def test_mistakes_in_the_file(tacit, name):
    text, words = FILES[name]
    Path("new.csv").write_text(text)
    said = tacit(*ADD)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not Path("one", "catalogue").exists()


@pytest.mark.usefixtures("here")
def test_mistakes_that_need_files(tacit):
    Path("pictures", "new-3.png").write_bytes(b"not a picture any more")
    said = tacit(*BOTH)
    assert said.code == 2
    assert "The picture of item 'new-3' (new-3.png) cannot be read" in said.err
    np.save("wide.npy", np.ones((10, 7)))
    np.save("short.npy", np.ones((9, 256)))
    said = tacit(*ADD, "--features", "text=wide.npy")
    assert "features 7 wide, but those of the training data are 256 wide" in said.err
    said = tacit(*ADD, "--features", "text=short.npy")
    assert "has 9 rows but there are 10 items" in said.err
    assert not Path("one", "catalogue").exists()
    Path("one", "run.json").unlink()
    assert "is not finished" in tacit(*BOTH).err


def write_dataset(folder: Path, extra: bool) -> None:
    """The small dataset with titles; with `extra`, ten people have `new-1`, half of them as the
    last item that they chose."""
    dataset = planted_dataset(n_users=60, n_items=40, mean_history=12.0)
    rows, titles = dataset.interactions, [*dataset.texts["title"]]
    users = [rows.users[code] for code in rows.user_N]
    items = [rows.items[code] for code in rows.item_N]
    assert rows.time_N is not None
    times = rows.time_N.tolist()
    names = [*rows.items]
    if extra:
        users, items = users + list(rows.users[:10]), items + ["new-1"] * 10
        times, names = times + [min(times), max(times) + 1] * 5, [*names, "new-1"]
        titles.append("The Drifting Schooner")
    folder.mkdir()
    frame = pl.DataFrame({"user_id": users, "item_id": items, "timestamp": times})
    frame.write_csv(folder / "interactions.csv")
    pl.DataFrame({"item_id": names, "title": titles}).write_csv(folder / "items.csv")


def test_an_item_grows_up(tacit):
    """Content of a folder with a manifest; and once people touch the item, it is one like others:
    the next training finds it in its data, under the same id."""
    write_dataset(Path("data"), extra=False)
    assert tacit("encode", "data/items.csv", "--text", "title", "--out", "data").code == 0
    train = ["train", "pfedrec", "--with", "ridge", "--split", "time", "--rounds", 2]
    assert tacit(*train, "--data", "data", "--out", "first").code == 0
    Path("new.csv").write_text("item_id,title\nnew-1,The Drifting Schooner\n")
    assert tacit("add-items", "first", "--items", "new.csv").code == 0

    def line_of(folder: str, user: str) -> dict[str, object] | None:
        said = tacit("recommend", folder, "--user", user, "-k", 100, "--json")
        assert said.code == 0, said.err
        lines = json.loads(said.out)["items"]
        return next((line for line in lines if line["item"] == "new-1"), None)

    users = planted_dataset(n_users=60, n_items=40, mean_history=12.0).interactions.users
    before = line_of("first", users[0])
    assert before is not None
    assert (before["new"], before["title"]) == (True, "The Drifting Schooner")

    write_dataset(Path("later"), extra=True)
    assert tacit("encode", "later/items.csv", "--text", "title", "--out", "later").code == 0
    assert tacit(*train, "--data", "later", "--out", "second").code == 0
    assert line_of("second", users[0]) is None  # this person has it by now
    after = line_of("second", users[-1])
    assert after is not None
    assert (after["new"], after["title"]) == (False, "The Drifting Schooner")
    said = tacit("add-items", "second", "--items", "new.csv")
    assert "Item 'new-1' is in the run's training catalogue already" in said.err
    assert tacit("evaluate", "second").code == 0
    ranks = pl.read_parquet("second/ranks.parquet")
    assert (
        len(ranks.filter((pl.col("item_id") == "new-1") & (pl.col("candidate_set") == "full"))) == 5
    )

    # where nobody knows how the table was made, only ready-made features will do
    Path("data", "text_feat.json").unlink()
    Path("new.csv").write_text("item_id,title\nnew-2,The Drifting Schooner\n")
    said = tacit("add-items", "first", "--items", "new.csv")
    assert "not known which encoder made the table 'text'" in said.err
    np.save("made.npy", np.load("later/text_feat.npy")[-1:])
    said = tacit("add-items", "first", "--items", "new.csv", "--features", "text=made.npy")
    assert said.code == 0, said.err
    assert "text      ready-made: 1 of 1 items" in said.out
    shown = json.loads(tacit("recommend", "first", "--user", users[0], "-k", 100, "--json").out)
    twins = [line["score"] for line in shown["items"] if line["new"]]
    assert twins[0] == pytest.approx(twins[1], abs=1e-5)  # the same content, by hand
