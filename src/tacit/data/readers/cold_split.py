"""A published split of items: a table with one row per interaction, or per item, and its part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tacit.data.readers.build import ids_of
from tacit.data.readers.parquet_file import read_parquet
from tacit.errors import TacitError, shown

PARTS = {"train": 0, "vali": 1, "valid": 1, "validation": 1, "test": 2}


def read_cold_split(path: Path, items: tuple[str, ...]) -> np.ndarray:
    """The part of each item: 0 train, 1 validation, 2 test.

    >>> import tempfile
    >>> table = pl.DataFrame({"item_id": ["a", "b", "b"], "split": ["train", "test", "test"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.write_parquet(Path(folder) / "split.parquet")
    ...     read_cold_split(Path(folder) / "split.parquet", ("b", "a")).tolist()
    [2, 0]
    """
    table, reason = pl.DataFrame(), ""
    try:
        table = read_parquet(path)
    except TacitError as error:
        reason = f" ({str(error).rstrip('.')})"
    if not {"item_id", "split"} <= set(table.columns) or table["split"].dtype != pl.String:
        raise TacitError(
            f"{str(path)!r} is no table with the columns item_id and split{reason}; bring the "
            "published file back, or remove it and use --split cold with a seed."
        )
    pairs = pl.DataFrame([ids_of(table["item_id"], str(path)), table["split"]]).unique()
    part_of: dict[str, int] = {}
    for item, part in pairs.rows():
        if part not in PARTS or part_of.get(item, PARTS[part]) != PARTS[part]:
            raise TacitError(
                f"Item {shown(item)} in {str(path)!r} has the part {shown(part)} beside another, "
                "or an unknown one; a split of items gives each one of train, vali and test."
            )
        part_of[item] = PARTS[part]
    absent = [item for item in items if item not in part_of]
    if absent:
        raise TacitError(
            f"{str(path)!r} says nothing of {len(absent)} items (first {shown(absent[0])}); bring "
            "the published file back."
        )
    return np.array([part_of[item] for item in items], dtype=np.int8)
