"""RecBole atomic files: `X.inter` with typed column names, and `X.item` with titles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import plain
from tacit.data.readers.inter_file import inter_file
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import check_header, first_line, read_text_table
from tacit.data.readers.texts import texts_from


def matches(path: Path) -> bool:
    """Whether the path is, or the folder holds, an `.inter` file with `name:type` columns."""
    file = inter_file(path)
    return file is not None and ":" in first_line(file)


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions, and titles where the item file has a column that looks like one."""
    file = inter_file(path) or path
    frame = _untyped(read_text_table(file, quoted=False), file)
    interactions = interactions_from(frame, columns, str(file), quirks)
    texts = _titles(file.with_suffix(".item"), interactions.items)
    return Dataset(name=name or file.stem, interactions=interactions, texts=texts)


def _titles(file: Path, items: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    if not file.is_file():
        return {}
    frame = _untyped(read_text_table(file, quoted=False), file)
    item = next((column for column in frame.columns if plain(column) == "itemid"), None)
    title = next((column for column in frame.columns if plain(column).endswith("title")), None)
    title = title or next((c for c in frame.columns if plain(c).endswith("name")), None)
    if item is None or title is None:
        return {}
    return texts_from(frame.select(item, pl.col(title).alias("title")), item, items)


def _untyped(frame: pl.DataFrame, file: Path) -> pl.DataFrame:
    names = [column.split(":")[0] for column in frame.columns]
    check_header(names, file)
    return frame.rename(dict(zip(frame.columns, names, strict=True)))
