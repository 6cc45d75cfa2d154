"""What becomes of texts: prompts, missing ones, and placeholders only when asked for."""

from __future__ import annotations

import pytest

from tacit.content.sources import Items, Texts
from tacit.errors import TacitError

ITEMS = Items(("a", "b", "c"), {"title": ("Alien {}", "", "Brazil"), "plot": ("A crew.", "", "")})


def test_missing_texts_have_no_row() -> None:
    texts = Texts.of(ITEMS)
    assert texts.ids == ("a", "c")
    assert texts.texts == ("Alien {} A crew.", "Brazil")
    assert (texts.items, texts.missing, texts.placeholders) == (3, 1, 0)


def test_prompt_and_placeholder() -> None:
    texts = Texts.of(ITEMS, prompt="the title is {}.", placeholder="the title is missing")
    assert texts.ids == ("a", "b", "c")
    assert texts.texts == (
        "the title is Alien {} A crew..",
        "the title is missing",
        "the title is Brazil.",
    )
    assert (texts.missing, texts.placeholders) == (0, 1)
    assert texts.recipe == {
        "columns": ["title", "plot"],
        "prompt": "the title is {}.",
        "placeholder": "the title is missing",
    }


def test_content_survives_the_trip() -> None:
    texts = Texts.of(Items(("a",), {"title": ("Čas 静",)}))
    assert [texts.decode(data) for data in texts.fetch(range(1))] == ["Čas 静"]


@pytest.mark.parametrize("prompt", ["no place", "{} and {}"])
def test_prompts_need_one_place(prompt: str) -> None:
    with pytest.raises(TacitError, match=r"must hold \{\} once"):
        Texts.of(ITEMS, prompt=prompt)


def test_nobody_has_a_text() -> None:
    with pytest.raises(TacitError, match="No item has a text in title"):
        Texts.of(Items(("a",), {"title": ("",)}), placeholder="unknown")
    with pytest.raises(TacitError, match="placeholder is empty"):
        Texts.of(ITEMS, placeholder=" ")
