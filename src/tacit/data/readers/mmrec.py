"""MMRec and FedMR folders: interactions with a split label, features whose row is the item."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.modalities import FeatureTable, Modalities
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import plain
from tacit.data.readers.features import (
    ids_file,
    modality_name,
    read_array,
    read_feature_ids,
    read_feature_table,
)
from tacit.data.readers.inter_file import inter_file
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import first_line, read_text_table, separator_of
from tacit.data.readers.texts import texts_from
from tacit.errors import TacitError, shown

ITEM_MAPPING = "i_id_mapping.csv"  # what the items were called before they were numbered


def matches(path: Path) -> bool:
    """Whether the path is, or the folder holds, a file with plain userID and itemID."""
    return _file(path) is not None


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions with their split labels, one modality per feature file, the ids from before."""
    file = _file(path) or path
    frame = read_text_table(file, quoted=False)
    interactions = interactions_from(frame, columns, str(file), quirks)
    tables: dict[str, FeatureTable] = {}
    for features in sorted([*file.parent.glob("*_feat.npy"), *file.parent.glob("*_features.npy")]):
        modality = modality_name(features)
        if modality in tables:
            raise TacitError(
                f"{str(file.parent)!r} holds two tables for {modality!r}, {modality}_feat.npy and "
                f"{modality}_features.npy; keep one."
            )
        tables[modality] = _table(features, interactions.items)
    stem = file.stem if file.suffix == ".inter" else file.resolve().parent.name
    return Dataset(
        name=name or stem,
        interactions=interactions,
        modalities=Modalities(tables),
        texts=_original_ids(file.parent / ITEM_MAPPING, interactions.items),
    )


def _file(path: Path) -> Path | None:
    """MMRec's `.inter` file, or the one CSV file of a folder that has a split label as well."""
    inter = inter_file(path)
    if inter is not None:
        line = first_line(inter)
        return inter if ":" not in line and {"userid", "itemid"} <= _names(line) else None
    if not path.is_dir():
        return None
    files = [file for file in sorted(path.glob("*.csv")) if _is_labelled(_names(first_line(file)))]
    return files[0] if len(files) == 1 else None


def _names(line: str) -> set[str]:
    return {plain(name) for name in line.split(separator_of(line))}


def _is_labelled(names: set[str]) -> bool:
    return {"userid", "itemid"} <= names and bool({"xlabel", "splitlabel"} & names)


def _table(file: Path, items: tuple[str, ...]) -> FeatureTable:
    listed = ids_file(file)
    if listed is not None:  # as `tacit encode` writes it: rows for some items, in any order
        return read_feature_table(file, read_feature_ids(listed), items)
    n_rows = len(read_array(file))
    known = {str(row) for row in range(n_rows)}
    stranger = next((item for item in items if item not in known), None)
    if stranger is not None:
        raise TacitError(
            f"{str(file)!r} has {n_rows} rows, so no row for item {shown(stranger)}; in this "
            "layout row k belongs to item k, counted from 0."
        )
    return read_feature_table(file, [str(row) for row in range(n_rows)], items)


def _original_ids(file: Path, items: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    frame = read_text_table(file) if file.is_file() else None
    numbers = [] if frame is None else [one for one in frame.columns if plain(one) == "itemid"]
    if frame is None or len(numbers) != 1 or frame.width < 2:
        return {}
    before = next(name for name in frame.columns if name != numbers[0])
    pairs = frame.select(numbers[0], before).rename({before: "original_id"})
    return texts_from(pairs, numbers[0], items)
