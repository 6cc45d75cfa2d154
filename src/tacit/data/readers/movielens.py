"""MovieLens as GroupLens publishes it: `u.data`, `ratings.dat` or `ratings.csv`, with titles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import plain
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import first_line, read_text_table
from tacit.data.readers.texts import texts_from

# The ratings file of each release, with the file of its titles.
FILES = {"u.data": "u.item", "ratings.dat": "movies.dat", "ratings.csv": "movies.csv"}
_NAMES = ("user_id", "item_id", "rating", "timestamp")


def matches(path: Path) -> bool:
    """Whether the path is one of the ratings files, or a folder that holds one."""
    return _ratings(path) is not None


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Ratings with their times, and titles and genres where the file of films lies next to them."""
    file = _ratings(path) or path
    headed = file.name == "ratings.csv"
    frame = read_text_table(file, names=None if headed else _NAMES, latin_1=True, quoted=headed)
    interactions = interactions_from(frame, columns, str(file), quirks)
    return Dataset(
        name=name or file.resolve().parent.name,
        interactions=interactions,
        texts=_titles(file.parent / FILES[file.name], interactions.items),
    )


def _ratings(path: Path) -> Path | None:
    if path.is_dir():
        return next((path / name for name in FILES if (path / name).is_file()), None)
    if path.name == "ratings.csv":  # a name that other people use too
        return path if "movieid" in map(plain, first_line(path).split(",")) else None
    return path if path.name in FILES and path.is_file() else None


def _titles(file: Path, items: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    if not file.is_file():
        return {}
    names = ["item_id", "title"] if file.name == "u.item" else ["item_id", "title", "genres"]
    headed = file.name == "movies.csv"
    frame = read_text_table(file, names=None if headed else names, latin_1=True, quoted=headed)
    if headed:
        frame = frame.rename(dict(zip(frame.columns, names, strict=False)))
    return texts_from(frame.select(names), "item_id", items)
