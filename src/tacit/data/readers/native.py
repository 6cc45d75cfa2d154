"""The native layout: a folder with `interactions.parquet` or `.csv`, item texts and features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import plain
from tacit.data.readers.features import read_modalities
from tacit.data.readers.parquet_file import read_parquet
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import read_text_table
from tacit.data.readers.texts import texts_from
from tacit.errors import TacitError, listed

FILES = ("interactions.parquet", "interactions.csv.gz", "interactions.csv")
ITEM_FILES = ("items.csv.gz", "items.csv")


def matches(path: Path) -> bool:
    """Whether the path is such a folder, or its interactions file."""
    return _file(path) is not None


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions, every text column of the item file, and every `X_feat.npy` as modality X."""
    folder = path if path.is_dir() else path.parent
    file = _file(path) or path
    frame = read_parquet(file) if file.suffix == ".parquet" else read_text_table(file)
    interactions = interactions_from(frame, columns, str(file), quirks)
    return Dataset(
        name=name or folder.resolve().name,
        interactions=interactions,
        modalities=read_modalities(folder, interactions.items),
        texts=_texts(folder, interactions),
    )


def _file(path: Path) -> Path | None:
    # A CSV file given by itself is any table, whatever it is called.
    places = [path / name for name in FILES] if path.is_dir() else [path]
    known = FILES if path.is_dir() else FILES[:1]
    return next((file for file in places if file.name in known and file.is_file()), None)


def _texts(folder: Path, interactions: Interactions) -> dict[str, tuple[str, ...]]:
    file = next((folder / name for name in ITEM_FILES if (folder / name).is_file()), None)
    if file is None:
        return {}
    frame = read_text_table(file)
    item = next((name for name in frame.columns if plain(name) == "itemid"), None)
    if item is None:
        raise TacitError(
            f"{str(file)!r} has no column item_id; it has {listed(frame.columns)}: rename one."
        )
    return texts_from(frame, item, interactions.items)
