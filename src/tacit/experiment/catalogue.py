"""Items that joined a finished run: versions of its catalogue, each written once, never changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file

from tacit.data.dataset import FeatureTable, Modalities
from tacit.errors import TacitError
from tacit.experiment.checkpoint import read_sidecar, write_tensors
from tacit.experiment.folder import RunFolder
from tacit.experiment.sealed import (
    SEAL,
    content_of,
    file_checksum,
    object_in,
    opened,
    require_checksum,
    sealed_text,
)
from tacit.files import PART, make_folder, whole_file

_NAME = re.compile(r"version-(\d{4,})\.json")
ROW, VALUE, PRESENT = "row", "content.value.", "content.present."


class _Sidecar(BaseModel):
    """What stands beside the rows of a version."""

    model_config = ConfigDict(extra="ignore", strict=True)

    file: str
    checksum: str
    model: str
    ids: list[str]
    titles: list[str | None]
    after: str | None = None  # the checksum of the version before this one


@dataclass(frozen=True, eq=False)
class NewItems:
    """Ids, titles where there are any, generated rows, and the content that the run's item encoder
    reads beside them; `versions` of the catalogue brought them.

    >>> len(NewItems())
    0
    """

    ids: tuple[str, ...] = ()
    titles: tuple[str | None, ...] = ()
    row_ND: torch.Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    content: Modalities = field(default_factory=Modalities)
    versions: int = 0

    def __len__(self) -> int:
        return len(self.ids)


def read_catalogue(folder: RunFolder) -> NewItems:
    """All items that joined, in the order in which they did.

    >>> read_catalogue(RunFolder(Path("nowhere"))).versions
    0
    """
    files = _versions(folder)
    if not files:
        return NewItems()
    parts = [_read(path, folder) for path in files]
    tables = {}
    for name in parts[0].content:
        value_NF = np.concatenate([part.content[name].value_IF for part in parts])
        present_N = np.concatenate([part.content[name].present_I for part in parts])
        tables[name] = FeatureTable(value_NF, present_N)
    return NewItems(
        tuple(name for part in parts for name in part.ids),
        tuple(title for part in parts for title in part.titles),
        torch.cat([part.row_ND for part in parts]),
        Modalities(tables),
        _number(files[-1]),
    )


def write_version(folder: RunFolder, items: NewItems, tables: dict[str, Any]) -> Path:
    """Write items as the version after the last; `tables` says how their content was made."""
    place, before = folder.catalogue_dir, _versions(folder)
    make_folder(place)
    name = f"version-{items.versions:04d}"
    file = place / f"{name}.safetensors"
    tensors = {ROW: items.row_ND.contiguous()}
    for table, content in items.content.items():
        tensors[VALUE + table] = torch.from_numpy(np.ascontiguousarray(content.value_IF))
        tensors[PRESENT + table] = torch.from_numpy(np.ascontiguousarray(content.present_I))
    sidecar: dict[str, Any] = {
        "file": file.name,
        "model": _model_of(folder),
        "after": file_checksum(before[-1]) if before else None,
        "ids": list(items.ids),
        "titles": list(items.titles),
        "tables": tables,
    }
    is_new = not file.exists()
    try:
        with whole_file(place / f"{name}.json") as part:
            part.touch()  # from here to its last rename the version is seen to be under way
            write_tensors(file, tensors)
            part.write_text(sealed_text({**sidecar, "checksum": file_checksum(file)}), "utf-8")
    except TacitError:
        if is_new:  # rows that no version names
            file.unlink(missing_ok=True)
        raise
    return file


def refuse_known(ids: Sequence[str], catalogue: Sequence[str], joined: Sequence[str]) -> None:
    """An id means one item for ever.

    >>> refuse_known(["c"], ["a"], ["b"])
    """
    before, later = set(catalogue), set(joined)
    for name in ids:
        if name in before:
            raise TacitError(
                f"Item {name!r} is in the run's training catalogue already; list only new items."
            )
        if name in later:
            raise TacitError(
                f"Item {name!r} has joined this run already and stays as it is; leave it out."
            )


def _versions(folder: RunFolder) -> list[Path]:
    """The sidecars of all versions in their order; refuses a version whose sidecar was lost."""
    place = folder.catalogue_dir
    found = [path for path in place.glob("*.json") if _NAME.fullmatch(path.name)]
    for rows in sorted(place.glob("version-*.safetensors")):
        sidecar = rows.with_suffix(".json")
        begun = sidecar.with_name(sidecar.name + PART)  # a kill came before it was whole
        if not sidecar.exists() and not begun.exists():
            raise TacitError(
                f"{str(sidecar)!r} is lost, so the items that joined with it cannot be read; bring "
                f"it back, or remove {rows.name} with the versions after it and add the items "
                "again."
            )
    return sorted(found, key=_number)


def _read(path: Path, folder: RunFolder) -> NewItems:
    try:
        sidecar = _sidecar(path)
        file = path.with_name(Path(sidecar.file).name)
        require_checksum(file, sidecar.checksum)
        if sidecar.model != _model_of(folder):
            raise ValueError("it belongs to another model")
        before = path.with_name(f"version-{_number(path) - 1:04d}.json")
        if sidecar.after is not None and sidecar.after != file_checksum(before):
            raise ValueError(f"it was added after another {before.name}")
        tensors = load_file(file)
        names = [key.removeprefix(VALUE) for key in tensors if key.startswith(VALUE)]
        tables = {
            name: FeatureTable(tensors[VALUE + name].numpy(), tensors[PRESENT + name].numpy())
            for name in sorted(names)
        }
        ids, titles = tuple(sidecar.ids), tuple(sidecar.titles)
        if not len(ids) == len(titles) == len(tensors[ROW]):
            raise ValueError("it has not as many rows as items")
        return NewItems(ids, titles, tensors[ROW], Modalities(tables), _number(path))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TacitError(
            f"{str(path)!r} is damaged ({why}); bring it back, or remove it with those after it "
            "and add the items again."
        ) from error


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("version-"))


def _sidecar(path: Path) -> _Sidecar:
    """A sidecar of this version, or of format 1, which had no seal."""
    found = object_in(content_of(path))
    if found.get("format") != 1 or SEAL in found:
        found = opened(found)
    try:
        return _Sidecar.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from error


def _model_of(folder: RunFolder) -> str:
    """The checksum of the model that made the rows: they mean nothing to another one."""
    return read_sidecar(folder.model_dir).checksum
