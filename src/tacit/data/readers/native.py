"""The native layout: a folder with `interactions.parquet`, and optional item texts and features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.modalities import Modalities
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import plain
from tacit.data.readers.features import modality_name, read_feature_ids, read_feature_table
from tacit.data.readers.parquet_file import read_parquet
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import read_text_table
from tacit.data.readers.texts import texts_from
from tacit.errors import TacitError

FILE = "interactions.parquet"
ITEM_FILES = ("items.csv.gz", "items.csv")


def matches(path: Path) -> bool:
    """Whether the path is such a folder, or its interactions file."""
    return (path / FILE).is_file() or (path.name == FILE and path.is_file())


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions, every text column of the item file, and every `X_feat.npy` as modality X."""
    folder = path if path.is_dir() else path.parent
    file = folder / FILE
    interactions = interactions_from(read_parquet(file), columns, str(file), quirks)
    return Dataset(
        name=name or folder.resolve().name,
        interactions=interactions,
        modalities=_modalities(folder, interactions),
        texts=_texts(folder, interactions),
    )


def _texts(folder: Path, interactions: Interactions) -> dict[str, tuple[str, ...]]:
    file = next((folder / name for name in ITEM_FILES if (folder / name).is_file()), None)
    if file is None:
        return {}
    frame = read_text_table(file)
    item = next((name for name in frame.columns if plain(name) == "itemid"), None)
    if item is None:
        raise TacitError(
            f"{str(file)!r} has no column item_id; it has {', '.join(frame.columns)}: rename one."
        )
    return texts_from(frame, item, interactions.items)


def _modalities(folder: Path, interactions: Interactions) -> Modalities:
    tables = {}
    for file in sorted(folder.glob("*_feat.npy")):
        modality = modality_name(file)
        own, shared = folder / f"{modality}_item_ids.txt", folder / "item_ids.txt"
        ids_file = own if own.is_file() else shared
        if not ids_file.is_file():
            raise TacitError(
                f"{str(file)!r} has no list of item ids; write {own.name} next to it, one id "
                "per line."
            )
        ids = read_feature_ids(ids_file)
        tables[modality] = read_feature_table(file, ids, interactions.items)
    return Modalities(tables)
