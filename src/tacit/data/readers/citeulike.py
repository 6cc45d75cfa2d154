"""CiteULike-a as published: line u of `users.dat` is a count, then the articles of user u."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import interactions_from
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import first_line, read_bytes
from tacit.errors import TacitError

FILE = "users.dat"


def matches(path: Path) -> bool:
    """Whether the path is, or the folder holds, a `users.dat` of counted lists."""
    file = path / FILE if path.is_dir() else path
    fields = first_line(file).split() if file.name == FILE and file.is_file() else []
    return bool(fields) and fields[0] == str(len(fields) - 1)


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Who keeps which article; there is no time. Users and articles are numbered from 0."""
    file = path / FILE if path.is_dir() else path
    users: list[int] = []
    items: list[str] = []
    for user, line in enumerate(read_bytes(file).decode(errors="replace").splitlines()):
        count, *articles = line.split() or ["0"]
        if count != str(len(articles)):
            raise TacitError(
                f"Line {user + 1} of {str(file)!r} announces {count[:20]} articles but lists "
                f"{len(articles)}; copy the file again."
            )
        users.extend([user] * len(articles))
        items.extend(articles)
    frame = pl.DataFrame({"user_id": users, "item_id": items})
    interactions = interactions_from(frame, columns, str(file), quirks)
    return Dataset(name=name or file.resolve().parent.name, interactions=interactions)
