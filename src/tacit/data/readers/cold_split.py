"""A published split of items: a table with one row per interaction, or per item, and its part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tacit.errors import TacitError

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
    try:
        table = pl.read_parquet(path, columns=["item_id", "split"])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TacitError(
            f"{str(path)!r} is no table with the columns item_id and split; bring the published "
            "file back, or remove it and use --split cold with a seed."
        ) from error
    pairs = table.unique().with_columns(pl.col("item_id").cast(pl.String))
    part_of: dict[str, int] = {}
    for item, part in pairs.rows():
        if part not in PARTS or part_of.get(item, PARTS[part]) != PARTS[part]:
            raise TacitError(
                f"Item {item!r} in {str(path)!r} has the part {part!r} beside another, or an "
                "unknown one; a split of items gives each one of train, vali and test."
            )
        part_of[item] = PARTS[part]
    absent = [item for item in items if item not in part_of]
    if absent:
        raise TacitError(
            f"{str(path)!r} says nothing of {len(absent)} items (first {absent[0]!r}); bring the "
            "published file back."
        )
    return np.array([part_of[item] for item in items], dtype=np.int8)
