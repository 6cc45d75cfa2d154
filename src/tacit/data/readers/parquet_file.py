"""Parquet files as frames, with plain words when they are damaged or something else."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tacit.errors import TacitError

_MAGIC = b"PAR1"


def is_parquet(path: Path) -> bool:
    """Whether the file begins as a Parquet file does, whatever its name."""
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def read_parquet(path: Path) -> pl.DataFrame:
    """The whole file; a damaged one is the reader's mistake to report, not a traceback."""
    size = path.stat().st_size
    if size == 0:
        raise TacitError(f"{str(path)!r} is empty (0 bytes); copy or export it again.")
    if not is_parquet(path):
        raise TacitError(f"{str(path)!r} is not a Parquet file, whatever its name says.")
    with path.open("rb") as file:
        file.seek(max(size - 4, 0))
        whole = file.read() == _MAGIC and size >= 12
    try:
        if whole:
            return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise TacitError(f"{str(path)!r} is a damaged or cut-off Parquet file; copy it again.")
