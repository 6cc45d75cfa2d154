"""MMRec folders: `X.inter` with a split label, and `Y_feat.npy` whose row is the item's number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.data.dataset import Dataset
from tacit.data.modalities import FeatureTable, Modalities
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import plain
from tacit.data.readers.features import modality_name, read_array, read_feature_table
from tacit.data.readers.inter_file import inter_file
from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.readers.text_file import first_line, read_text_table, separator_of
from tacit.errors import TacitError


def matches(path: Path) -> bool:
    """Whether the path is, or the folder holds, an `.inter` file with plain userID and itemID."""
    file = inter_file(path)
    line = "" if file is None else first_line(file)
    names = {plain(name) for name in line.split(separator_of(line))}
    return ":" not in line and {"userid", "itemid"} <= names


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions with their split labels, and one modality per feature file of the folder."""
    file = inter_file(path) or path
    frame = read_text_table(file, quoted=False)
    interactions = interactions_from(frame, columns, str(file), quirks)
    tables = {
        modality_name(features): _table(features, interactions.items)
        for features in sorted(file.parent.glob("*_feat.npy"))
    }
    return Dataset(name=name or file.stem, interactions=interactions, modalities=Modalities(tables))


def _table(file: Path, items: tuple[str, ...]) -> FeatureTable:
    n_rows = len(read_array(file))
    known = {str(row) for row in range(n_rows)}
    stranger = next((item for item in items if item not in known), None)
    if stranger is not None:
        raise TacitError(
            f"{str(file)!r} has {n_rows} rows, so no row for item {stranger!r}; in this layout row "
            "k belongs to item k, counted from 0."
        )
    return read_feature_table(file, [str(row) for row in range(n_rows)], items)
