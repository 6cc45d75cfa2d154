"""Tables in memory (polars, pandas, named columns) and in files (CSV, TSV, Parquet)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import NO_QUIRKS, USUAL, Quirks, interactions_from, plain, resolve
from tacit.data.readers.parquet_file import is_parquet, read_parquet
from tacit.data.readers.text_file import first_line, read_text_table, separator_of
from tacit.errors import TacitError, listed

# Frames that are already in memory: polars, pandas, or anything with named columns.


def from_frame(
    frame: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    value: str | None = None,
    label: str | None = None,
    name: str = "frame",
) -> Dataset:
    """A dataset from the named columns of a polars or pandas frame, or of a dictionary of columns.

    Columns that are not named are found by their usual names, as in a file: user and item always,
    all others where nothing is named.

    >>> frame = pl.DataFrame({"who": ["ann", "bob"], "what": ["tea", "tea"], "when": [1, 2]})
    >>> from_frame(frame, user="who", item="what", time="when").interactions.counts
    {'users': 2, 'items': 1, 'interactions': 2}
    >>> usual = {"user": ["ann"], "item": ["tea"], "timestamp": [4]}
    >>> from_frame(usual).interactions.time_N.tolist()
    [4]
    """
    named = {"user": user, "item": item, "time": time, "value": value, "label": label}
    return read_frame(frame, {role: name for role, name in named.items() if name is not None}, name)


def read_frame(frame: Any, columns: Mapping[str, str] | None, name: str = "frame") -> Dataset:
    """A dataset from a frame whose columns are named by role; without any, by their usual names.

    >>> read_frame({"who": ["ann"], "item": ["tea"]}, {"user": "who"}).interactions.users
    ('ann',)
    """
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    labels = _labels(frame)
    chosen = resolve(list(labels), columns or None, name)
    names = [str(column) for column in getattr(frame, "columns", labels)]
    for column in chosen.values():
        if names.count(column) > 1:
            raise TacitError(f"The frame names column {column!r} twice; rename one of them.")
    # Columns that nobody asked for stay unread: they may hold anything.
    asked = [_series(column, frame[labels[column]]) for column in chosen.values()]
    lengths = {role: len(column) for role, column in zip(chosen, asked, strict=True)}
    if len(set(lengths.values())) > 1:
        raise TacitError(
            f"Columns of {name!r} have different lengths "
            f"({listed(f'{role} {length}' for role, length in lengths.items())}); give one value "
            "of each for every interaction."
        )
    return Dataset(name, interactions_from(pl.DataFrame(asked), chosen, name))


def _labels(frame: Any) -> dict[str, Any]:
    """The columns of a frame by their names as text; pandas may label them with numbers."""
    # polars and pandas say `columns`, Hugging Face datasets `column_names`, a dictionary its keys.
    for attribute in ("columns", "column_names"):
        if hasattr(frame, attribute):
            return {str(column): column for column in getattr(frame, attribute)}
    if isinstance(frame, Mapping):
        return {str(column): column for column in frame}
    raise TacitError(
        f"A {type(frame).__name__} has no named columns; give a polars or pandas frame, or a "
        "dictionary of columns."
    )


def _series(name: str, column: Any) -> pl.Series:
    if isinstance(column, pl.Series):
        return column
    missing_of = getattr(column, "isna", None)
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return pl.Series(name, values)
    missing = missing_of() if missing_of is not None else [value is None for value in values]
    kept = [None if gone else value for value, gone in zip(values, missing, strict=True)]
    return pl.Series(name, kept, strict=False)


# Any table: CSV, TSV (also gzipped) or Parquet, with columns named by the caller or as usual.

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".gz")


def matches(path: Path) -> bool:
    """Whether the path is a file with a table's ending, or begins as Parquet does."""
    return path.is_file() and (path.suffix.lower() in SUFFIXES or is_parquet(path))


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """The named columns. A text file without a header has its columns named by position, from 1."""
    if is_parquet(path) or path.suffix.lower() == ".parquet":
        frame = read_parquet(path)
    else:
        frame = read_text_table(path, names=_positions(path, columns))
    interactions = interactions_from(frame, columns, str(path), quirks)
    return Dataset(name=name or path.name.split(".")[0], interactions=interactions)


def _positions(path: Path, columns: Mapping[str, str] | None) -> list[str] | None:
    """The names "1", "2", … when the caller counts columns and the first line names none."""
    if not columns or not all(column.isdigit() for column in columns.values()):
        return None
    line = first_line(path)
    fields = line.split(separator_of(line))
    usual = {name for names in USUAL.values() for name in names}
    if any(plain(field) in usual for field in fields):
        return None
    return [str(position) for position in range(1, len(fields) + 1)]
