"""Tables of new items: encoded, ready-made, or empty, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.content.encoders import About
from tacit.content.plain import NGrams
from tacit.content.recipes import Given, Recipe, new_tables, optional_columns, recipes_of
from tacit.content.sources import Items
from tacit.errors import TacitError

ITEMS = Items(("a", "b", "c"), {"title": ("Reef", "", "Comet"), "plot": ("", "", "Ice.")})
BOTH = recipes_of("planted", ["text", "image"])
WIDTHS = {"text": 256, "image": 256}


def test_columns_are_those_of_the_training_data() -> None:
    assert optional_columns(BOTH, Given()) == ("title", "description")
    assert optional_columns(BOTH, Given(text=("plot",))) == ("title",)
    made = new_tables(ITEMS, WIDTHS, BOTH, Given())
    assert made["text"].columns == ("title",)
    assert made["text"].table.present_I.tolist() == [True, False, True]
    expected_NF = NGrams().encode(["Reef", "Comet"])
    assert (made["text"].table.value_IF[[0, 2]] == expected_NF).all()
    assert not made["image"].table.present_I.any()
    named = new_tables(ITEMS, WIDTHS, BOTH, Given(text=("plot", "title")))
    assert (named["text"].table.value_IF[2] == NGrams().encode(["Ice. Comet"])[0]).all()


def test_prompts_and_placeholders_are_those_of_the_training_data() -> None:
    recipe = Recipe("text", "text", NGrams().about, ("title",), "a film: {}", "nothing said")
    made = new_tables(ITEMS, {"text": 256}, {"text": recipe}, Given())
    expected_NF = NGrams().encode(["a film: Reef", "nothing said", "a film: Comet"])
    assert (made["text"].table.value_IF == expected_NF).all()


def test_pictures(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9), "red").save(tmp_path / "b.png")
    made = new_tables(ITEMS, WIDTHS, BOTH, Given(images=tmp_path))
    assert made["image"].table.present_I.tolist() == [False, True, False]
    (tmp_path / "c.jpg").write_bytes(b"\xff\xd8 no more")
    with pytest.raises(TacitError, match=r"picture of item 'c' \(c.jpg\) cannot be read"):
        new_tables(ITEMS, WIDTHS, BOTH, Given(images=tmp_path))


def test_texts_may_all_be_empty() -> None:
    items = Items(("a",), {"title": ("",)})
    made = new_tables(items, {"text": 256}, BOTH, Given(text=("title",)))
    assert not made["text"].table.present_I.any()


def test_ready_made_features(tmp_path: Path) -> None:
    value_NF = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", value_NF)
    given = Given(features={"sound": tmp_path / "x.npy"})
    made = new_tables(ITEMS, {"sound": 4}, {}, given)["sound"]
    assert (made.table.value_IF == value_NF).all()
    assert made.encoder == "ready-made"


MISTAKES = {
    "another width": ({"sound": 5}, np.ones((3, 4)), "gives features 4 wide, but"),
    "another count": ({"sound": 4}, np.ones((2, 4)), "has 2 rows but there are 3 items"),
    "not finite": ({"sound": 4}, np.full((3, 4), np.nan), "features of item 'a' hold NaN"),
    "no matrix": ({"sound": 4}, np.ones(4), "must hold a two-dimensional matrix"),
    "no such table": ({"text": 4}, np.ones((3, 4)), "no table called 'sound'; known: text."),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_features_that_do_not_fit(name: str, tmp_path: Path) -> None:
    widths, value_NF, words = MISTAKES[name]
    np.save(tmp_path / "x.npy", value_NF)
    with pytest.raises(TacitError, match=words):
        new_tables(ITEMS, widths, BOTH, Given(features={"sound": tmp_path / "x.npy"}))


def test_what_cannot_be_read() -> None:
    def refusal(widths: dict[str, int], given: Given, recipes: dict[str, Recipe]) -> str:
        with pytest.raises(TacitError) as caught:
            new_tables(Items(("a",), {}), widths, recipes, given)
        return str(caught.value)

    assert "nothing to read of the new items" in refusal(WIDTHS, Given(), BOTH)
    assert "not known which encoder made the table 'text'" in refusal(WIDTHS, Given(), {})
    two = {name: Recipe(name, "text", About("ngrams"), (name,)) for name in ("title", "plot")}
    widths = {"title": 256, "plot": 256}
    assert "several tables of text" in refusal(widths, Given(text=("x",)), two)
    idle = Given(text=("title",), encoders=("colours",))
    assert "no such table to encode" in refusal({"text": 256}, idle, BOTH)
    missing = Given(features={"text": Path("nowhere.npy")})
    assert "no file at 'nowhere.npy'" in refusal({"text": 256}, missing, BOTH)
