"""Items that joined a finished run: versions of its catalogue, each written once, never changed.

A version is a pair of files, `version-0001.safetensors` and `version-0001.json`. The second names
the first with its checksum and is renamed into place last: without it the version does not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from tacit.data.modalities import FeatureTable, Modalities
from tacit.errors import TacitError
from tacit.experiment.checkpoint import file_checksum, write_tensors
from tacit.experiment.folder import RunFolder
from tacit.files import NotWrittenError, write_text

FORMAT = 1
_NAME = re.compile(r"version-(\d{4,})\.json")
ROW, VALUE, PRESENT = "row", "content.value.", "content.present."


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
    found = [path for path in folder.catalogue_dir.glob("*.json") if _NAME.fullmatch(path.name)]
    files = sorted(found, key=_number)
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
    place = folder.catalogue_dir
    name = f"version-{items.versions:04d}"
    file = place / f"{name}.safetensors"
    tensors = {ROW: items.row_ND.contiguous()}
    for table, content in items.content.items():
        tensors[VALUE + table] = torch.from_numpy(np.ascontiguousarray(content.value_IF))
        tensors[PRESENT + table] = torch.from_numpy(np.ascontiguousarray(content.present_I))
    write_tensors(file, tensors)
    sidecar = {
        "format": FORMAT,
        "file": file.name,
        "checksum": file_checksum(file),
        "model": _model_of(folder),
        "ids": list(items.ids),
        "titles": list(items.titles),
        "tables": tables,
    }
    try:
        write_text(place / f"{name}.json", json.dumps(sidecar, indent=1))
    except NotWrittenError:
        file.unlink()  # rows that no version names
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


def _read(path: Path, folder: RunFolder) -> NewItems:
    try:
        sidecar = json.loads(path.read_text(encoding="utf-8"))
        if sidecar["format"] != FORMAT:
            raise ValueError(f"it is of format {sidecar['format']!r}")
        file = path.with_name(Path(sidecar["file"]).name)
        if file_checksum(file) != sidecar["checksum"]:
            raise ValueError("its checksum does not match")
        if sidecar["model"] != _model_of(folder):
            raise ValueError("it belongs to another model")
        tensors = load_file(file)
        names = [key.removeprefix(VALUE) for key in tensors if key.startswith(VALUE)]
        tables = {
            name: FeatureTable(tensors[VALUE + name].numpy(), tensors[PRESENT + name].numpy())
            for name in sorted(names)
        }
        ids, titles = tuple(sidecar["ids"]), tuple(sidecar["titles"])
        if not len(ids) == len(titles) == len(tensors[ROW]):
            raise ValueError("it has not as many rows as items")
        return NewItems(ids, titles, tensors[ROW], Modalities(tables), _number(path))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TacitError(
            f"{str(path)!r} is damaged ({error}); bring it back, or remove it with those after it "
            "and add the items again."
        ) from error


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("version-"))


def _model_of(folder: RunFolder) -> str:
    """The checksum of the model that made the rows: they mean nothing to another one."""
    return str(
        json.loads((folder.model_dir / "state.json").read_text(encoding="utf-8"))["checksum"]
    )
