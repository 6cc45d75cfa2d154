"""Datasets as their authors publish them: MovieLens, CiteULike-a, and published item splits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import NO_QUIRKS, Quirks, ids_of, interactions_from, plain
from tacit.data.readers.features import texts_from
from tacit.data.readers.parquet_file import read_parquet
from tacit.data.readers.text_file import first_line, read_bytes, read_text_table
from tacit.errors import TacitError, argument, shown

# MovieLens as GroupLens publishes it: `u.data`, `ratings.dat` or `ratings.csv`, with titles.

# The ratings file of each release, with the file of its titles.
FILES = {"u.data": "u.item", "ratings.dat": "movies.dat", "ratings.csv": "movies.csv"}
_NAMES = ("user_id", "item_id", "rating", "timestamp")


def matches_movielens(path: Path) -> bool:
    """Whether the path is one of the ratings files, or a folder that holds one."""
    return _ratings(path) is not None


def read_movielens(
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


# CiteULike-a as published: line u of `users.dat` is a count, then the articles of user u.

FILE = "users.dat"


def matches_citeulike(path: Path) -> bool:
    """Whether the path is, or the folder holds, a `users.dat` of counted lists."""
    file = path / FILE if path.is_dir() else path
    fields = first_line(file).split() if file.name == FILE and file.is_file() else []
    return bool(fields) and fields[0] == str(len(fields) - 1)


def read_citeulike(
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


# A published split of items: a table with one row per interaction, or per item, and its part.

PARTS = {"train": 0, "vali": 1, "valid": 1, "validation": 1, "test": 2}


def read_cold_split(path: Path, items: tuple[str, ...]) -> np.ndarray:
    """The part of each item: 0 train, 1 validation, 2 test.

    >>> import tempfile
    >>> table = pl.DataFrame({"item_id": ["a", "b", "b"], "split": ["train", "test", "test"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.write_parquet(Path(folder) / "split.parquet")
    ...     read_cold_split(Path(folder) / "split.parquet", ("b", "a")).tolist()
    [2, 0]
    """
    table, reason = pl.DataFrame(), ""
    try:
        table = read_parquet(path)
    except TacitError as error:
        reason = f" ({str(error).rstrip('.')})"
    if not {"item_id", "split"} <= set(table.columns) or table["split"].dtype != pl.String:
        raise TacitError(
            f"{str(path)!r} is no table with the columns item_id and split{reason}; bring the "
            f"published file back, or remove it and use {argument('split', 'cold')} with a seed."
        )
    pairs = pl.DataFrame([ids_of(table["item_id"], str(path)), table["split"]]).unique()
    part_of: dict[str, int] = {}
    for item, part in pairs.rows():
        if part not in PARTS or part_of.get(item, PARTS[part]) != PARTS[part]:
            raise TacitError(
                f"Item {shown(item)} in {str(path)!r} has the part {shown(part)} beside another, "
                "or an unknown one; a split of items gives each one of train, vali and test."
            )
        part_of[item] = PARTS[part]
    absent = [item for item in items if item not in part_of]
    if absent:
        raise TacitError(
            f"{str(path)!r} says nothing of {len(absent)} items (first {shown(absent[0])}); bring "
            "the published file back."
        )
    return np.array([part_of[item] for item in items], dtype=np.int8)
