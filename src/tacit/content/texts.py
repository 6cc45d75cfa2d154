"""Texts to encode: columns joined, put into a prompt; what is missing stays missing."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.content.encoder import Modality
from tacit.content.items import Items
from tacit.errors import TacitError


@dataclass(frozen=True)
class Texts:
    """The items that have a text, and their texts as the encoder will see them.

    >>> items = Items(("a", "b"), {"title": ("Alien", ""), "plot": ("A crew.", "")})
    >>> found = Texts.of(items, prompt="the title is {}")
    >>> found.ids, found.texts, found.missing
    (('a',), ('the title is Alien A crew.',), 1)
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    items: int
    missing: int
    placeholders: int
    recipe: dict[str, object]
    modality: Modality = "text"

    @classmethod
    def of(
        cls, items: Items, *, prompt: str | None = None, placeholder: str | None = None
    ) -> Texts:
        """Join the columns of each item; only `placeholder` gives items without a text one."""
        if prompt is not None and prompt.count("{}") != 1:
            raise TacitError(
                f"The prompt {prompt!r} must hold {{}} once, where the text goes, as in "
                '"the title of this item is {}".'
            )
        if placeholder is not None and not placeholder.strip():
            raise TacitError("The placeholder is empty; give a sentence, or leave it out.")
        ids, texts, empty = [], [], 0
        for name, *parts in zip(items.ids, *items.texts.values(), strict=True):
            text = " ".join(part for part in parts if part)
            empty += not text
            if text:
                text = prompt.replace("{}", text) if prompt is not None else text
            elif placeholder is not None:
                text = placeholder
            if text:
                ids.append(name)
                texts.append(text)
        if empty == len(items.ids):
            raise TacitError(
                f"No item has a text in {', '.join(items.texts)}; name another column with --text."
            )
        recipe: dict[str, object] = {
            "columns": list(items.texts),
            "prompt": prompt,
            "placeholder": placeholder,
        }
        filled = empty if placeholder is not None else 0
        return cls(tuple(ids), tuple(texts), len(items.ids), empty - filled, filled, recipe)

    def fetch(self, rows: range) -> list[bytes]:
        """What the rows are made of, for telling whether it changed."""
        return [self.texts[row].encode("utf-8", "surrogatepass") for row in rows]

    def decode(self, data: bytes) -> str | None:
        """What the encoder is given; nothing can be wrong with a text."""
        return data.decode("utf-8", "surrogatepass")

    def said(self, row: int) -> str:
        return f"item {self.ids[row]!r}"
