"""Folders with a layout: RecBole's atomic files, MMRec and FedMR folders, and the native layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.interactions import Interactions
from tacit.data.readers.build import NO_QUIRKS, Quirks, interactions_from, plain
from tacit.data.readers.features import (
    ids_file,
    modality_name,
    read_array,
    read_feature_ids,
    read_feature_table,
    read_modalities,
    texts_from,
)
from tacit.data.readers.parquet_file import read_parquet
from tacit.data.readers.text_file import check_header, first_line, read_text_table, separator_of
from tacit.errors import TacitError, listed, shown

# Finding the `.inter` file that RecBole and MMRec folders share a name for.


def inter_file(path: Path) -> Path | None:
    """The file itself, the folder's `.inter` of the same name, or its only one; else nothing."""
    if path.is_file():
        return path if path.suffix == ".inter" else None
    files = sorted(path.glob("*.inter"))
    named = path / f"{path.resolve().name}.inter"
    return named if named in files else (files[0] if len(files) == 1 else None)


# RecBole atomic files: `X.inter` with typed column names, and `X.item` with titles.


def matches_recbole(path: Path) -> bool:
    """Whether the path is, or the folder holds, an `.inter` file with `name:type` columns."""
    file = inter_file(path)
    return file is not None and ":" in first_line(file)


def read_recbole(
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


# MMRec and FedMR folders: interactions with a split label, features whose row is the item.

ITEM_MAPPING = "i_id_mapping.csv"  # what the items were called before they were numbered


def matches_mmrec(path: Path) -> bool:
    """Whether the path is, or the folder holds, a file with plain userID and itemID."""
    return _file(path) is not None


def read_mmrec(
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


# The native layout: a folder with `interactions.parquet` or `.csv`, item texts and features.

FILES = ("interactions.parquet", "interactions.csv.gz", "interactions.csv")
ITEM_FILES = ("items.csv.gz", "items.csv")


def matches_native(path: Path) -> bool:
    """Whether the path is such a folder, or its interactions file."""
    return _native_file(path) is not None


def read_native(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions, every text column of the item file, and every `X_feat.npy` as modality X."""
    folder = path if path.is_dir() else path.parent
    file = _native_file(path) or path
    frame = read_parquet(file) if file.suffix == ".parquet" else read_text_table(file)
    interactions = interactions_from(frame, columns, str(file), quirks)
    return Dataset(
        name=name or folder.resolve().name,
        interactions=interactions,
        modalities=read_modalities(folder, interactions.items),
        texts=_texts(folder, interactions),
    )


def _native_file(path: Path) -> Path | None:
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
