"""The manifest of a feature table: who made it, from what, and for which rows.

It lies beside the table, `X_feat.json` beside `X_feat.npy`, and is checked whenever that is read.
"""

from __future__ import annotations

import hashlib
import json
import typing
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError, shown
from tacit.files import reading, refuse_special

FORMAT = 1
NUMBERS = np.dtype("<f4")  # of a table on disk


@dataclass(frozen=True)
class FeatureManifest:
    """What `tacit encode` writes about a table; `inputs` names content and encoder in one hash.

    >>> FeatureManifest.file_of(Path("data/text_feat.npy")).name
    'text_feat.json'
    """

    table: str
    modality: str
    encoder: str
    weights: dict[str, str]  # file name -> SHA-256; empty where there are none
    preprocessing: dict[str, Any]
    packages: dict[str, str]
    items: int  # in the file of items
    rows: int  # in the table
    width: int
    missing: int  # items without content, and so without a row
    placeholders: int  # items without content that got the sentence for it, as was asked
    corrupt: list[str]  # ids of items whose content could not be read; they have no row either
    item_ids_sha256: str
    values_sha256: str
    inputs_sha256: str
    format: int = FORMAT

    @staticmethod
    def file_of(features: Path) -> Path:
        return features.with_suffix(".json")

    def dumps(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def ids_hash(ids: Sequence[str]) -> str:
    """The hash of row ids in their order, whatever the line ends of the file they came from.

    >>> ids_hash(["a", "b"]) == ids_hash(["b", "a"])
    False
    """
    return hashlib.sha256("".join(f"{name}\n" for name in ids).encode()).hexdigest()


def values_hash(blocks: Iterable[np.ndarray], shape: tuple[int, ...]) -> str:
    """The hash of a table's shape and numbers, which may come in blocks of rows.

    >>> whole = np.ones((2, 1), np.float32)
    >>> values_hash([whole], (2, 1)) == values_hash([whole[:1], whole[1:]], (2, 1))
    True
    """
    digest = hashlib.sha256(f"{shape}".encode())
    for block_NF in blocks:
        digest.update(np.ascontiguousarray(block_NF, dtype=NUMBERS).data)
    return digest.hexdigest()


def read_manifest(path: Path) -> FeatureManifest:
    """The manifest at `path`; a file that is not one is refused."""
    from pydantic import TypeAdapter

    remedy = "encode again, or remove it"
    try:
        with reading(path, remedy):
            found = json.loads(path.read_bytes().decode("utf-8"))
        if found["format"] != FORMAT:
            raise TacitError(
                f"{str(path)!r} is of format {shown(found['format'])}, which this version of tacit "
                "does not know; encode again."
            )
        kinds = typing.get_type_hints(FeatureManifest)
        return FeatureManifest(
            **{
                name: TypeAdapter(kind).validate_python(found[name], strict=True)
                for name, kind in kinds.items()
            }
        )
    except (ValueError, KeyError, TypeError, RecursionError):  # a ValidationError is a ValueError
        raise TacitError(f"{str(path)!r} is not a manifest of a feature table; {remedy}.") from None


def check_manifest(features: Path, value_KF: np.ndarray, ids: Sequence[str]) -> None:
    """Refuse a table that is not the one its manifest was written for; without one, say nothing."""
    path = FeatureManifest.file_of(features)
    refuse_special(path)
    if not path.is_file():
        return
    manifest = read_manifest(path)
    if value_KF.shape != (manifest.rows, manifest.width):
        rows, width = value_KF.shape
        what = f"has another shape ({rows} rows of {width}; {manifest.rows} of {manifest.width})"
    elif ids_hash(ids) != manifest.item_ids_sha256:
        what = "stands beside other item ids, or the same in another order,"
    elif values_hash([value_KF], value_KF.shape) != manifest.values_sha256:
        what = "holds other numbers"
    else:
        return
    raise TacitError(
        f"{str(features)!r} {what} than its manifest {path.name} says; remove it and encode "
        "again, or remove the manifest if you changed the table on purpose."
    )
