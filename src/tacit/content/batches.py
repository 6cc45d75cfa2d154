"""Batches: which rows, what they are made of, and where they are kept once they are encoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from tacit.content.encoder import Encoder
from tacit.content.images import Images
from tacit.content.texts import Texts
from tacit.errors import TacitError
from tacit.files import whole_file

Source = Texts | Images


@dataclass(frozen=True)
class Batch:
    """Some rows of a source, their content, and a key that changes when anything about it does."""

    rows: range
    raw: list[bytes]
    key: str


def about_of(source: Source, encoder: Encoder, size: int) -> dict[str, Any]:
    """Encoder, weights, packages, and everything that happens to the content on the way."""
    about = encoder.about.as_dict()
    # The size counts: in a network the last bits of a row may depend on its neighbours.
    about["preprocessing"] = {"source": source.recipe, **about["preprocessing"], "batch": size}
    return about


def batches_of(source: Source, about: dict[str, Any], size: int) -> Iterator[Batch]:
    """The batches of a source in order, read one at a time.

    >>> from tacit.content.items import Items
    >>> texts = Texts.of(Items(("a", "b", "c"), {"title": ("x", "y", "z")}))
    >>> [list(batch.rows) for batch in batches_of(texts, {}, 2)]
    [[0, 1], [2]]
    """
    head = json.dumps(about, sort_keys=True).encode()
    for start in range(0, len(source.ids), size):
        rows = range(start, min(start + size, len(source.ids)))
        raw = source.fetch(rows)
        digest = hashlib.sha256(head)
        for row, data in zip(rows, raw, strict=True):
            name = source.ids[row].encode("utf-8", "surrogatepass")
            digest.update(b"%d %d " % (len(name), len(data)))
            digest.update(name)
            digest.update(data)
        yield Batch(rows, raw, digest.hexdigest())


def encode_batch(source: Source, encoder: Encoder, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Rows for what could be read, and which of the batch's items that is."""
    content = [_decoded(source, row, data) for row, data in zip(batch.rows, batch.raw, strict=True)]
    kept_B = np.array([one is not None for one in content])
    if not kept_B.any():
        return np.zeros((0, encoder.width), np.float32), kept_B
    value_ND = encoder.encode([one for one in content if one is not None])
    finite_N = np.isfinite(value_ND).all(axis=1)
    if not finite_N.all():
        bad = batch.rows[int(np.flatnonzero(kept_B)[~finite_N][0])]
        raise TacitError(
            f"Encoder {encoder.about.encoder!r} gave NaN or infinite numbers for "
            f"{source.said(bad)}; use other weights or leave that item out."
        )
    return value_ND.astype(np.float32), kept_B


def _decoded(source: Source, row: int, data: bytes) -> Any:
    try:
        return source.decode(data)
    except TacitError as error:
        raise TacitError(f"Cannot encode {source.said(row)}: {error}") from None


def write_batch(path: Path, value_ND: np.ndarray, kept_B: np.ndarray) -> None:
    """Keep a finished batch, whole or not at all."""
    with whole_file(path, shared=path.parent) as temporary, temporary.open("wb") as file:
        np.savez(file, value=value_ND, kept=kept_B)


def read_batch(path: Path, size: int, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """A finished batch, or nothing where it is not there or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            value_ND, kept_B = arrays["value"], arrays["kept"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    fits = kept_B.shape == (size,) and value_ND.shape == (int(kept_B.sum()), width)
    return (value_ND, kept_B) if fits else None
