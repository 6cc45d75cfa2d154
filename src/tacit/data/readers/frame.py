"""Frames that are already in memory: polars, pandas, or anything with named columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import interactions_from
from tacit.data.readers.columns import resolve
from tacit.errors import TacitError


def from_frame(
    frame: Any,
    *,
    user: str,
    item: str,
    time: str | None = None,
    value: str | None = None,
    label: str | None = None,
    name: str = "frame",
) -> Dataset:
    """A dataset from the named columns of a polars or pandas frame, or of a dictionary of columns.

    >>> frame = pl.DataFrame({"who": ["ann", "bob"], "what": ["tea", "tea"], "when": [1, 2]})
    >>> from_frame(frame, user="who", item="what", time="when").interactions.counts
    {'users': 2, 'items': 1, 'interactions': 2}
    """
    named = {"user": user, "item": item, "time": time, "value": value, "label": label}
    columns = {role: column for role, column in named.items() if column is not None}
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    resolve(_names(frame), columns, name)
    # Columns that nobody asked for stay unread: they may hold anything.
    asked = pl.DataFrame([_series(column, frame[column]) for column in columns.values()])
    return Dataset(name, interactions_from(asked, columns, name))


def _names(frame: Any) -> list[str]:
    # polars and pandas say `columns`, Hugging Face datasets `column_names`, a dictionary its keys.
    for attribute in ("columns", "column_names"):
        if hasattr(frame, attribute):
            return [str(column) for column in getattr(frame, attribute)]
    if isinstance(frame, Mapping):
        return [str(column) for column in frame]
    raise TacitError(
        f"A {type(frame).__name__} has no named columns; give a polars or pandas frame, or a "
        "dictionary of columns."
    )


def _series(name: str, column: Any) -> pl.Series:
    if isinstance(column, pl.Series):
        return column
    missing_of = getattr(column, "isna", None)
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return pl.Series(name, values)
    missing = missing_of() if missing_of is not None else [value is None for value in values]
    kept = [None if gone else value for value, gone in zip(values, missing, strict=True)]
    return pl.Series(name, kept, strict=False)
