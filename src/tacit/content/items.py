"""The file of items: an id and texts for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tacit.data.readers.build import ids_of
from tacit.data.readers.columns import plain
from tacit.data.readers.parquet_file import is_parquet, read_parquet
from tacit.data.readers.text_file import read_text_table
from tacit.errors import TacitError, nearest, shown
from tacit.files import refuse_special

ID_COLUMN = "item_id"


@dataclass(frozen=True)
class Items:
    """Ids in the order of the file, and what stands in the text columns that were asked for.

    >>> Items(("a", "b"), {"title": ("Alien", "")}).texts["title"]
    ('Alien', '')
    """

    ids: tuple[str, ...]
    texts: Mapping[str, tuple[str, ...]]


def read_items(
    path: Path,
    columns: Sequence[str] = (),
    id_column: str | None = None,
    *,
    optional: Sequence[str] = (),
) -> Items:
    """Read a CSV, TSV (also gzipped) or Parquet file of items; `optional` columns where they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "items.csv")
    ...     _ = file.write_text("item_id,title\\n7,Alien\\n8,\\n")
    ...     read_items(file, ["title"])
    Items(ids=('7', '8'), texts={'title': ('Alien', '')})
    """
    refuse_special(path)
    if not path.is_file():
        raise TacitError(f"There is no file of items at {str(path)!r}; give a CSV or Parquet file.")
    parquet = is_parquet(path) or path.suffix.lower() == ".parquet"
    frame = read_parquet(path) if parquet else read_text_table(path)
    chosen = id_column or next((one for one in frame.columns if plain(one) == "itemid"), ID_COLUMN)
    for name in (chosen, *columns):
        if name not in frame.columns:
            hint = "" if id_column or name != chosen else " (name the ids with --id)"
            raise TacitError(
                f"{str(path)!r} has no column {shown(name)}{hint}; {nearest(name, frame.columns)}"
            )
    if frame.height == 0:
        raise TacitError(f"{str(path)!r} holds no items: it has column names but no rows.")
    ids = tuple(ids_of(frame[chosen], str(path)).to_list())
    _refuse_odd_ids(ids, chosen, path)
    there = [name for name in optional if name in frame.columns]
    read = dict.fromkeys((*columns, *there))
    return Items(ids, {name: _texts(frame[name], path) for name in read})


def _refuse_odd_ids(ids: tuple[str, ...], column: str, path: Path) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise TacitError(
                f"Item {shown(name)} stands twice in column {shown(column)} of {str(path)!r}; list "
                "it once."
            )
        if len(name.splitlines()) > 1:
            raise TacitError(
                f"The id {shown(name)} in {str(path)!r} holds a line break; rename it."
            )
        seen.add(name)


def _texts(column: pl.Series, path: Path) -> tuple[str, ...]:
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise TacitError(
            f"Column {shown(column.name)} of {str(path)!r} holds {column.dtype} values, not text; "
            "name another column."
        )
    return tuple(column.cast(pl.String).str.strip_chars().fill_null("").to_list())
