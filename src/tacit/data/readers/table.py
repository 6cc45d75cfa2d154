"""Any table: CSV, TSV (also gzipped) or Parquet, with columns named by the caller or as usual."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import USUAL, plain
from tacit.data.readers.parquet_file import is_parquet, read_parquet
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import first_line, read_text_table, separator_of

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
