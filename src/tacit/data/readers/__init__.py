"""Reading files of other people's making: one reader per format, chosen by looking at the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.readers import amazon, folders, ninerec, published, table
from tacit.data.readers.build import NO_QUIRKS, ROLES, Quirks, parse_columns
from tacit.data.readers.features import read_modalities
from tacit.data.readers.table import from_frame
from tacit.errors import TacitError, listed
from tacit.files import reading

__all__ = ["READERS", "ROLES", "Quirks", "Reader", "from_frame", "parse_columns", "read_path"]


@dataclass(frozen=True)
class Reader:
    """One format: what it is, whether a path is in it, and how to read that path.

    >>> list(READERS)
    ['native', 'recbole', 'mmrec', 'movielens', 'ninerec', 'amazon', 'citeulike', 'table']
    """

    title: str
    matches: Callable[[Path], bool]
    read: Callable[[Path, Mapping[str, str] | None, str | None, Quirks], Dataset]


# In order: the first that matches reads. `table` takes any file that looks like a table, so it is
# the last.
READERS: dict[str, Reader] = {
    "native": Reader(
        "folder with interactions.parquet or interactions.csv",
        folders.matches_native,
        folders.read_native,
    ),
    "recbole": Reader(
        "RecBole X.inter with name:type columns", folders.matches_recbole, folders.read_recbole
    ),
    "mmrec": Reader(
        "MMRec X.inter or FedMR inter.csv with userID and itemID",
        folders.matches_mmrec,
        folders.read_mmrec,
    ),
    "movielens": Reader(
        "u.data, ratings.dat or ratings.csv", published.matches_movielens, published.read_movielens
    ),
    "ninerec": Reader("NineRec X_pair.csv", ninerec.matches_ninerec, ninerec.read_ninerec),
    "amazon": Reader(
        "Amazon reviews in JSON lines (2023, 2018)", amazon.matches_amazon, amazon.read_amazon
    ),
    "citeulike": Reader(
        "CiteULike users.dat", published.matches_citeulike, published.read_citeulike
    ),
    "table": Reader("CSV, TSV or Parquet file", table.matches, table.read),
}


def read_path(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    *,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Read a file or folder with the first reader that recognises it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "plays.csv"
    ...     _ = file.write_text("user,song,time\\nann,x,3\\nann,y,4\\n")
    ...     read_path(file, {"item": "song"}).interactions.counts
    {'users': 1, 'items': 2, 'interactions': 2}
    """
    path = Path(path)
    if not os.path.exists(path):  # unlike Path.exists, false for names that are too long
        raise TacitError(f"There is no file or folder at {str(path)!r}; check the path.")
    with reading(path, "check that it may be read"):
        for reader in READERS.values():
            if reader.matches(path):
                return _with_features(reader.read(path, columns, name, quirks), path)
        raise TacitError(_unknown(path))


def _with_features(dataset: Dataset, path: Path) -> Dataset:
    """Other people's layouts have no features of their own; those put beside them count as well."""
    if dataset.modalities or not path.is_dir():
        return dataset
    return replace(dataset, modalities=read_modalities(path, dataset.interactions.items))


def _unknown(path: Path) -> str:
    known = "; ".join(reader.title for reader in READERS.values())
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir())
        listing = listed(files[:8]) + (", …" if len(files) > 8 else "") if files else "nothing"
        return (
            f"The folder {str(path)!r} is in no known layout: it holds {listing}; known: {known}."
        )
    with path.open("rb") as file:
        head = file.read(6)
    if head == b"\x93NUMPY":
        return (
            f"{str(path)!r} is a feature matrix, not interactions; put it next to them as "
            "X_feat.npy and give the folder."
        )
    if head.startswith(b"PK"):
        return f"{str(path)!r} is a zip archive; unpack it and give the folder."
    return f"{str(path)!r} is in no known format; known: {known}."
