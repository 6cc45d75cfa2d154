"""What is known of items beside interactions: feature tables and texts, lined up with the
catalogue.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from tacit.data.dataset import FeatureTable, Modalities
from tacit.data.readers.manifest import check_manifest
from tacit.errors import TacitError, shown
from tacit.files import reading
from tacit.memory import require_memory

# What is written about items (titles, descriptions), lined up with the catalogue.


def texts_from(
    frame: pl.DataFrame, item: str, items: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Every column but `item`, one text per catalogue item; what is not there is the empty text.

    >>> frame = pl.DataFrame({"item_id": ["b", "a"], "title": ["Brazil", None]})
    >>> texts_from(frame, "item_id", ("a", "b", "c"))
    {'title': ('', 'Brazil', '')}
    """
    known = frame.with_columns(pl.all().cast(pl.String).str.strip_chars())
    known = known.unique(subset=item, keep="first", maintain_order=True)
    joined = pl.DataFrame({item: list(items)}, schema={item: pl.String}).join(
        known, on=item, how="left", maintain_order="left"
    )
    names = [name for name in frame.columns if name != item]
    return {name: tuple(joined[name].fill_null("").to_list()) for name in names}


# Feature tables on disk: a `.npy` matrix, the item of each row, and perhaps a manifest.

_LESS = "use a smaller table or a machine with more memory"


def read_array(path: Path) -> np.ndarray:
    """A matrix of numbers from a `.npy` file; pickled objects are never loaded."""
    with reading(path, "check that it is a file and may be read"):
        # the table is read, then lined up with the catalogue in 32 bits
        needed = path.stat().st_size * 2
        require_memory(needed, what=f"The numbers of {str(path)!r}", hint=_LESS)
        try:
            value_KF = np.load(path, allow_pickle=False)
        except (OSError, MemoryError):
            raise
        except Exception:  # a damaged header fails in as many ways as Python can be misspelt
            raise TacitError(
                f"{str(path)!r} is not a readable .npy matrix of numbers; write it with numpy.save."
            ) from None
    if (
        not isinstance(value_KF, np.ndarray)
        or value_KF.ndim != 2
        or value_KF.dtype.kind not in "fiu"
    ):
        raise TacitError(
            f"{str(path)!r} must hold a two-dimensional matrix of numbers, one row per item."
        )
    return value_KF


def read_feature_ids(path: Path) -> list[str]:
    """The item of each row: one id per line."""
    with reading(path, "it must be a text file with one item id per line"):
        ids = path.read_text("utf-8-sig").split("\n")
    return [line.strip() for line in (ids[:-1] if ids[-1] == "" else ids)]


def read_feature_table(path: Path, ids: list[str], items: tuple[str, ...]) -> FeatureTable:
    """The matrix at `path`, whose row k belongs to item `ids[k]`, aligned to the catalogue."""
    value_KF = read_array(path)
    if len(value_KF) != len(ids):
        raise TacitError(
            f"{str(path)!r} has {len(value_KF)} rows but {len(ids)} item ids are listed for it; "
            "there must be one id per row."
        )
    if len(set(ids)) < len(ids):
        repeated = next(name for name, number in Counter(ids).items() if number > 1)
        raise TacitError(f"Item {shown(repeated)} is listed twice for {str(path)!r}; list it once.")
    check_manifest(path, value_KF, ids)
    try:
        return FeatureTable.align(value_KF, ids, items)
    except TacitError as error:
        raise TacitError(f"{str(path)!r}: {error}") from None


def modality_name(path: Path) -> str:
    """The modality that a file holds, from its name.

    >>> modality_name(Path("data/text_bert384_feat.npy")), modality_name(Path("text_features.npy"))
    ('text_bert384', 'text')
    """
    return path.name.removesuffix(".npy").removesuffix("_features").removesuffix("_feat")


def ids_file(features: Path) -> Path | None:
    """The list of ids of a table: its own, or the one for the whole folder; None without either."""
    own = features.with_name(f"{modality_name(features)}_item_ids.txt")
    return next(
        (file for file in (own, features.with_name("item_ids.txt")) if file.is_file()), None
    )


def read_modalities(folder: Path, items: tuple[str, ...]) -> Modalities:
    """Every `X_feat.npy` of a folder as modality X, whatever X is."""
    tables = {}
    for file in sorted(folder.glob("*_feat.npy")):
        modality, listed = modality_name(file), ids_file(file)
        if listed is None:
            raise TacitError(
                f"{str(file)!r} has no list of item ids; write {modality}_item_ids.txt next to it, "
                "one id per line."
            )
        tables[modality] = read_feature_table(file, read_feature_ids(listed), items)
    return Modalities(tables)
