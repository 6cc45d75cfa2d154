"""Encode a table batch by batch; what is finished stays, so that the same command can go on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np

from tacit.content.encoders import Encoder
from tacit.content.sources import Images, Texts
from tacit.content.tables import TableFiles
from tacit.data.readers.features import read_array, read_feature_ids
from tacit.data.readers.manifest import (
    FeatureManifest,
    check_manifest,
    ids_hash,
    read_manifest,
    values_hash,
)
from tacit.errors import TacitError
from tacit.files import make_folder, whole_file

# Batches: which rows, what they are made of, and where they are kept once they are encoded.

Source = Texts | Images


@dataclass(frozen=True)
class ContentBatch:
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


def batches_of(source: Source, about: dict[str, Any], size: int) -> Iterator[ContentBatch]:
    """The batches of a source in order, read one at a time.

    >>> from tacit.content.sources import Items
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
        yield ContentBatch(rows, raw, digest.hexdigest())


def encode_batch(
    source: Source, encoder: Encoder, batch: ContentBatch
) -> tuple[np.ndarray, np.ndarray]:
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


# Encode a table batch by batch; what is finished stays, so the same command can go on.

BATCH = 32


class Watch(Protocol):
    """Is told of every batch."""

    def begin(self, label: str, total: int) -> None: ...

    def advance(self, done: int) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Encoding:
    """A table that is there now; how many items were encoded just now; whose content was damaged.

    Items of batches that were finished before do not count as encoded.
    """

    files: TableFiles
    manifest: FeatureManifest
    encoded: int
    damaged: tuple[str, ...]


def encode_table(
    source: Source,
    encoder: Encoder,
    out: Path,
    *,
    name: str | None = None,
    batch: int = BATCH,
    watch: Watch | None = None,
) -> Encoding:
    """Write `NAME_feat.npy`, `NAME_item_ids.txt` and `NAME_feat.json` into `out`.

    Batches are the same however often the work is interrupted, and so are the bytes.

    >>> import tempfile
    >>> from tacit.content.sources import Items
    >>> from tacit.content.plain import NGrams
    >>> from tacit.content.sources import Texts
    >>> texts = Texts.of(Items(("a", "b"), {"title": ("Alien", "")}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = encode_table(texts, NGrams(), Path(folder))
    ...     np.load(done.files.features).shape, done.manifest.missing
    ((1, 256), 1)
    """
    if batch < 1:
        raise TacitError(f"A batch of {batch} items is none; use at least 1.")
    files = TableFiles(out, name or source.modality)
    about = about_of(source, encoder, batch)
    if files.features.exists():
        return _already_there(source, about, batch, files)
    make_folder(files.batches)
    inputs, paths, kept, encoded = _inputs(source, files), [], [], 0
    if watch is not None:
        watch.begin(f"{files.name}, {encoder.about.encoder}", len(source.ids))
    try:
        for number, one in enumerate(batches_of(source, about, batch)):
            inputs.update(one.key.encode())
            paths.append(files.batches / f"{number:06d}-{one.key[:32]}.npz")
            finished = read_batch(paths[-1], len(one.rows), encoder.width)
            if finished is None:
                finished = encode_batch(source, encoder, one)
                write_batch(paths[-1], *finished)
                encoded += len(one.rows)
            kept.append(finished[1])
            if watch is not None:
                watch.advance(one.rows.stop)
    finally:
        if watch is not None:
            watch.end()
    kept_N = np.concatenate(kept)
    manifest = _write(source, about, files, paths, kept_N, encoder.width, inputs.hexdigest())
    return Encoding(files, manifest, encoded, _said(source, manifest.corrupt))


def _inputs(source: Source, files: TableFiles) -> Any:
    """The hash that names all content and the encoder; the keys of the batches are added to it."""
    return hashlib.sha256(f"{files.name} {source.items} ".encode())


def _write(
    source: Source,
    about: dict[str, Any],
    files: TableFiles,
    paths: list[Path],
    kept_N: np.ndarray,
    width: int,
    inputs: str,
) -> FeatureManifest:
    ids = [name for name, kept in zip(source.ids, kept_N, strict=True) if kept]
    if not ids:
        raise TacitError(
            f"None of the {len(kept_N)} {source.modality}s could be read (the first is that of "
            f"{source.said(0)}); nothing was written."
        )
    manifest = FeatureManifest(
        table=files.name,
        modality=source.modality,
        **about,
        items=source.items,
        rows=len(ids),
        width=width,
        missing=source.missing,
        placeholders=source.placeholders,
        corrupt=[name for name, kept in zip(source.ids, kept_N, strict=True) if not kept],
        item_ids_sha256=ids_hash(ids),
        values_sha256=values_hash(_blocks(paths), (len(ids), width)),
        inputs_sha256=inputs,
    )
    files.write(_blocks(paths), manifest, ids)
    shutil.rmtree(files.batches)
    return manifest


def _blocks(paths: list[Path]) -> Iterator[np.ndarray]:
    for path in paths:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays["value"]


def _already_there(
    source: Source, about: dict[str, Any], batch: int, files: TableFiles
) -> Encoding:
    """The finished table, if it is whole, of the same content and by the same encoder."""
    if files.manifest.is_file():
        manifest = read_manifest(files.manifest)
        inputs = _inputs(source, files)
        for one in batches_of(source, about, batch):
            inputs.update(one.key.encode())
        if inputs.hexdigest() == manifest.inputs_sha256:
            ids = read_feature_ids(files.item_ids)
            check_manifest(files.features, read_array(files.features), ids)
            shutil.rmtree(files.batches, ignore_errors=True)
            return Encoding(files, manifest, 0, _said(source, manifest.corrupt))
    raise TacitError(
        f"{str(files.features)!r} is already there, made of other content or in another way; give "
        "another --out or --name, or remove it."
    )


def _said(source: Source, corrupt: Sequence[str]) -> tuple[str, ...]:
    row_of = {name: row for row, name in enumerate(source.ids)}
    return tuple(source.said(row_of[name]) for name in corrupt)
