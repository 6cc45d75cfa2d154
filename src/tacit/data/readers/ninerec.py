"""NineRec: `X_pair.csv` (user, item, timestamp) and `X_item.csv` (id, titles in zh and en)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import interactions_from
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import first_line, read_text_table
from tacit.data.readers.texts import texts_from
from tacit.errors import TacitError, listed

_PAIR = "_pair.csv"


def matches(path: Path) -> bool:
    """Whether the path is an `X_pair.csv`, or a folder that holds one."""
    if path.is_dir():
        return any(path.glob(f"*{_PAIR}"))
    return path.name.endswith(_PAIR)


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions, and both titles where the item file lies next to them."""
    file = _pair_file(path)
    # Copies with and without a header are about; a header's third field is no number.
    headed = not first_line(file).split(",")[-1].strip().lstrip("-").replace(".", "", 1).isdigit()
    frame = read_text_table(file, names=None if headed else ("user", "item", "timestamp"))
    interactions = interactions_from(frame, columns, str(file), quirks)
    stem = file.name.removesuffix(_PAIR)
    texts = _titles(file.parent / f"{stem}_item.csv", interactions.items)
    return Dataset(name=name or stem, interactions=interactions, texts=texts)


def _pair_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob(f"*{_PAIR}"))
    if len(files) > 1:
        raise TacitError(
            f"{str(path)!r} holds several datasets ({listed(file.name for file in files)}); "
            "name one of these files."
        )
    return files[0]


def _titles(file: Path, items: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    if not file.is_file():
        return {}
    frame = read_text_table(file, names=("item_id", "zh", "en"))
    frame = frame.select(
        "item_id", pl.coalesce("en", "zh").alias("title"), pl.col("zh").alias("title_zh")
    )
    return texts_from(
        frame, "item_id", items
    )  # a header, if there is one, is no item and drops out
