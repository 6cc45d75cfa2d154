"""The catalogue that a node has: items in the order of their codes, and what devices know of them.

A later version begins with the items of the one before it, so that codes, rows of tables and
recorded histories keep their meaning.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from tacit.errors import TacitError, listed, shown
from tacit.files import reading
from tacit.node.store import Content, Store
from tacit.wire.messages import CatalogueUpdate

BOX_NAME = "catalogue"
PRESENT = "@present"  # text@present: which items have content of the kind `text`
REMEDY = "give a file with one item id a line, a CSV with the columns item and title, or a JSON"


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items in the order of their codes. `arrays` is content that devices get: a table of numbers
    for each kind, and beside it (`text@present`) which items have it.

    >>> first = Catalogue(("a", "b"))
    >>> Catalogue(("a", "b", "c"), version=2).continues(first), first.code_of["b"]
    (True, 1)
    """

    ids: tuple[str, ...]
    titles: tuple[str, ...] = ()  # one for each item, or none at all; "" where unknown
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    version: int = 1

    def __post_init__(self) -> None:
        if not self.ids:
            raise TacitError("The catalogue is empty; give at least one item.")
        if len(set(self.ids)) != len(self.ids):
            twice = next(one for one in self.ids if self.ids.count(one) > 1)
            raise TacitError(f"The item {shown(twice)} stands twice in the catalogue.")
        if self.titles and len(self.titles) != len(self.ids):
            raise TacitError(
                f"The catalogue has {len(self.ids)} items and {len(self.titles)} titles; give one "
                "for each, or none."
            )
        for name, array in self.arrays.items():
            if len(array) != len(self.ids):
                raise TacitError(
                    f"The content {shown(name)} has {len(array)} rows for {len(self.ids)} items."
                )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def code_of(self) -> dict[str, int]:
        return {item: code for code, item in enumerate(self.ids)}

    def title(self, code: int) -> str | None:
        return (self.titles[code] or None) if self.titles else None

    @cached_property
    def digest(self) -> str:
        """What tells one catalogue from another: its ids in order, and its content."""
        whole = hashlib.blake2b(digest_size=16)
        whole.update(json.dumps(self.ids, ensure_ascii=True).encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            whole.update(json.dumps([name, array.dtype.str, array.shape]).encode())
            whole.update(array.tobytes())
        return whole.hexdigest()

    def continues(self, older: Catalogue) -> bool:
        """Whether it begins with the items of another."""
        return self.ids[: len(older)] == older.ids

    # On the wire, and on the disk

    def message(self, deployment: str) -> CatalogueUpdate:
        """The catalogue as a server sends it."""
        known = (list(self.ids), list(self.titles), dict(self.arrays))
        return CatalogueUpdate(deployment, self.version, self.digest, *known)

    @classmethod
    def of_message(cls, message: CatalogueUpdate) -> Catalogue:
        """The catalogue of a message; one that was changed on the way is refused."""
        found = cls(
            tuple(message.ids), tuple(message.titles), dict(message.arrays), message.version
        )
        if found.digest != message.digest:
            raise TacitError("A catalogue is not the one that its digest says.")
        return found

    def write(self, store: Store) -> None:
        values = {"version": self.version, "ids": self.ids, "titles": self.titles}
        store.write(BOX_NAME, Content(values, dict(self.arrays)))

    @classmethod
    def read(cls, store: Store) -> Catalogue:
        content = store.read(BOX_NAME)
        if content is None:
            raise TacitError(
                f"The node at {str(store.folder)!r} has lost its catalogue; bring back a copy of "
                "its folder."
            )
        known = content.values
        return cls(
            tuple(known["ids"]), tuple(known["titles"]), content.arrays, int(known["version"])
        )


def read_catalogue_file(path: Path) -> Catalogue:
    """A catalogue that a person gives: JSON, CSV with a header, or one item id a line."""
    if not path.is_file():
        raise TacitError(f"No file at {str(path)!r}; {REMEDY}.")
    with reading(path, REMEDY):
        text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return _of_json(text, path)
    if path.suffix in (".csv", ".tsv"):
        return _of_table(text, path)
    return Catalogue(_ids((line.strip() for line in text.splitlines()), path))


def _of_json(text: str, path: Path) -> Catalogue:
    try:
        found = json.loads(text)
        ids, titles = found["ids"], found.get("titles", [])
        version = int(found.get("version", 1))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TacitError(
            f"{str(path)!r} is no catalogue; a JSON has ids, and may have titles and a version."
        ) from error
    return Catalogue(_ids(map(str, ids), path), tuple(map(str, titles)), version=version)


def _of_table(text: str, path: Path) -> Catalogue:
    rows = csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
    columns = list(rows.fieldnames or ())
    if "item" not in columns:
        raise TacitError(f"{str(path)!r} has no column item, only {listed(columns)}; {REMEDY}.")
    found = [row for row in rows if row["item"]]
    titles = tuple(row["title"] or "" for row in found) if "title" in columns else ()
    return Catalogue(_ids((row["item"] for row in found), path), titles)


def _ids(found: Iterable[str], path: Path) -> tuple[str, ...]:
    ids = tuple(one for one in found if one)
    if not ids:
        raise TacitError(f"{str(path)!r} has no items; {REMEDY}.")
    return ids
