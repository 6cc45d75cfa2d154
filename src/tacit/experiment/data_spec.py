"""Which data an experiment is about, also where it has neither a name nor a path.

A frame or a `Dataset` is called by a digest of its contents, such as "frame:3f9ac2d41b07". The
experiment holds the data itself, but its text does not: two experiments are equal when the digests
are. `Model.save` stores such data in the folder of the run, so that the run can be opened later.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tacit.core.types import NOT_WRITTEN
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.digest import content_digest
from tacit.data.interactions import Interactions
from tacit.data.load import IN_MEMORY, Data, load, own_rules
from tacit.errors import TacitError
from tacit.experiment.sealed import (
    DamagedError,
    file_checksum,
    read_sealed,
    require_checksum,
    write_sealed,
)
from tacit.files import whole_file

# Which data: what an experiment says of it, and who holds it.


class Holder(Protocol):
    """Who has data that no name and no path leads to."""

    def dataset(self) -> Dataset: ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """A dataset of this program."""

    kept: Dataset

    def dataset(self) -> Dataset:
        return self.kept


@dataclass(frozen=True, eq=False)
class Stored:
    """A dataset in the folder of a run, read when it is asked for."""

    folder: Path

    def dataset(self) -> Dataset:
        return read_dataset(self.folder)


@dataclass(frozen=True)
class DataSpec:
    """Which data: a named source or a path, how its columns are called, and what is filtered out.

    >>> DataSpec().name
    'planted'
    """

    name: str = "planted"
    columns: tuple[tuple[str, str], ...] = ()  # (role, column), for files with names of their own
    min_user: int | None = None  # overrides the source's own rule
    min_rating: float | None = None  # rows with a lower rating are dropped first
    core: int | None = None  # the k of a k-core; overrides the source's own
    held: Holder | None = field(  # of data in memory; its name has a digest of it
        default=None, compare=False, repr=False, metadata={NOT_WRITTEN: True}
    )

    @classmethod
    def of(
        cls,
        data: Data | DataSpec,
        columns: Mapping[str, str] | None = None,
        min_user: int | None = None,
        min_rating: float | None = None,
        core: int | None = None,
    ) -> DataSpec:
        """From anything that is data: a name, a path, a `Dataset`, a polars or pandas frame.

        >>> plays = {"user": ["ann", "bob"], "item": ["tea", "tea"]}
        >>> DataSpec.of(plays) == DataSpec.of(pl.DataFrame(plays)[::-1])  # rows in any order
        True
        """
        if isinstance(data, DataSpec):
            spec, named = data, tuple(sorted((columns or {}).items())) or data.columns
        elif isinstance(data, str | os.PathLike):
            spec, named = cls(str(data)), tuple(sorted((columns or {}).items()))
        else:
            # repeated pairs are decided by the protocol, when the data is prepared
            dataset = load(data, columns=columns, duplicates="keep")
            spec, named = cls(IN_MEMORY + content_digest(dataset), held=InMemory(dataset)), ()
        rating = spec.min_rating if min_rating is None else float(min_rating)
        return replace(
            spec,
            columns=named,
            min_user=spec.min_user if min_user is None else min_user,
            min_rating=rating,
            core=spec.core if core is None else core,
        )

    @property
    def in_memory(self) -> bool:
        """Whether neither a source nor a file is meant.

        >>> DataSpec("frame:3f9ac2d41b07").in_memory, DataSpec("ml-100k").in_memory
        (True, False)
        """
        return self.name.startswith(IN_MEMORY)

    def check(self) -> None:
        """Refuse filters that make no sense, and a name that no file can record."""
        try:
            self.name.encode("utf-8")
        except UnicodeEncodeError:
            raise TacitError(
                f"The data's name {self.name!r} is no valid text, so no file can record it; "
                "rename the file."
            ) from None
        own_rules(self.min_rating, self.min_user, self.core)  # each checks itself

    def load(self, duplicates: str = "earliest") -> Dataset:
        """The data, filtered as it is said here."""
        return load(
            self.name if self.held is None else self.held.dataset(),
            columns=dict(self.columns) or None,
            min_user=self.min_user,
            min_rating=self.min_rating,
            core=self.core,
            duplicates=duplicates,  # type: ignore[arg-type]
        )


# A dataset in a folder, whole: histories of people are on the disk from then on.

MANIFEST, ROWS, USERS, ITEMS, ARRAYS = (
    "dataset.json",
    "interactions.parquet",
    "users.parquet",
    "items.parquet",
    "features.safetensors",
)


class _Manifest(BaseModel):
    """What stands beside the files of a stored dataset."""

    model_config = ConfigDict(extra="ignore", strict=True)

    name: str
    notes: list[str]
    files: dict[str, str]  # checksums


_VALUE, _PRESENT, _COLD = "value.", "present.", "cold_part"
_ERRORS = (pl.exceptions.PolarsError, SafetensorError)


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Store a dataset: interactions with times, ratings and labels, texts and feature tables.

    >>> import tempfile
    >>> data = Dataset("few", Interactions.from_ids(["u", "v"], ["a", "b"], time=[3, 5]))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_dataset(data, Path(place, "data"))
    ...     again = read_dataset(Path(place, "data"))
    >>> again.interactions.users, again.interactions.time_N.tolist()
    (('u', 'v'), [3, 5])
    """
    rows = dataset.interactions
    columns = {
        "user": rows.user_N,
        "item": rows.item_N,
        "time": rows.time_N,
        "value": rows.value_N,
        "label": rows.label_N,
    }
    frames = {
        ROWS: pl.DataFrame(
            {name: column for name, column in columns.items() if column is not None}
        ),
        USERS: pl.DataFrame({"user": list(rows.users)}),
        ITEMS: pl.DataFrame(
            {"item": list(rows.items), **{f"text.{k}": list(v) for k, v in dataset.texts.items()}}
        ),
    }
    arrays = {_VALUE + name: table.value_IF for name, table in dataset.modalities.items()}
    arrays |= {_PRESENT + name: table.present_I for name, table in dataset.modalities.items()}
    if dataset.cold_part_I is not None:
        arrays[_COLD] = dataset.cold_part_I
    for name, frame in frames.items():
        with whole_file(folder / name, library_errors=_ERRORS) as part:
            frame.write_parquet(part, compression="zstd")
    with whole_file(folder / ARRAYS, library_errors=_ERRORS) as part:
        save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, part)
    files = {name: file_checksum(folder / name) for name in (*frames, ARRAYS)}
    about = _Manifest(name=dataset.name, notes=list(dataset.notes), files=files)
    write_sealed(folder / MANIFEST, about.model_dump())


def read_dataset(folder: Path) -> Dataset:
    """A dataset that was stored; one that was changed since is refused."""
    try:
        about = _Manifest.model_validate(read_sealed(folder / MANIFEST))
        for name in (ROWS, USERS, ITEMS, ARRAYS):
            require_checksum(folder / name, about.files.get(name))
        rows, items = pl.read_parquet(folder / ROWS), pl.read_parquet(folder / ITEMS)
        users = pl.read_parquet(folder / USERS)["user"].to_list()
        arrays = load_file(folder / ARRAYS)
    except (DamagedError, ValidationError, OSError, *_ERRORS) as error:
        why = str(error).splitlines()[0]
        raise TacitError(
            f"The data in {str(folder)!r} is damaged: {why}; bring it back, or train again."
        ) from error
    columns = {name: rows[name].to_numpy().copy() for name in rows.columns}
    interactions = Interactions(
        columns["user"],
        columns["item"],
        tuple(users),
        tuple(items["item"].to_list()),
        *(columns.get(name) for name in ("time", "value", "label")),
    )
    names = [name.removeprefix(_VALUE) for name in arrays if name.startswith(_VALUE)]
    tables = {name: FeatureTable(arrays[_VALUE + name], arrays[_PRESENT + name]) for name in names}
    texts = {name: tuple(items[name].to_list()) for name in items.columns[1:]}
    return Dataset(
        about.name,
        interactions,
        Modalities(tables),
        {name.removeprefix("text."): text for name, text in texts.items()},
        notes=tuple(about.notes),
        cold_part_I=arrays.get(_COLD),
    )


def is_stored(folder: Path) -> bool:
    """Whether a dataset lies in a folder."""
    return (folder / MANIFEST).is_file()
