"""Manifests: which files make up a dataset, where they are fetched from, and how to know them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tacit.errors import TacitError, nearest, shown
from tacit.files import refuse_special, said

SCHEMES = ("http", "https", "file")
MAX_MANIFEST_BYTES = 1_000_000
MAX_FILES = 1000
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ManifestFile:
    """One file: its address, its SHA-256, its size, and its path below the destination.

    >>> ManifestFile("https://example.org/u.data", "0" * 64, 10, "u.data").path
    'u.data'
    """

    url: str
    sha256: str
    bytes: int
    path: str

    def __post_init__(self) -> None:
        scheme = self.url.partition(":")[0].lower()
        if scheme not in SCHEMES:
            raise TacitError(
                f"The address {shown(self.url)} begins with {shown(scheme)}; only "
                f"{', '.join(SCHEMES)} are read."
            )
        if not _SHA256.fullmatch(self.sha256):
            raise TacitError(
                f"The sha256 of {shown(self.path)} must be 64 hexadecimal digits (lower case)."
            )
        if self.bytes < 1:
            raise TacitError(
                f"The size of {shown(self.path)} is {self.bytes} bytes; it must be at least 1."
            )
        _refuse_outside("path", self.path)


@dataclass(frozen=True)
class Manifest:
    """A dataset to fetch: its name, its licence, its files.

    >>> Manifest("few", "free", (ManifestFile("https://example.org/a", "0" * 64, 1, "a"),)).name
    'few'
    """

    name: str
    licence: str
    files: tuple[ManifestFile, ...]

    def __post_init__(self) -> None:
        _refuse_outside("name", self.name)  # it names a folder of the cache
        paths = [file.path for file in self.files]
        if not paths or len(paths) > MAX_FILES:
            raise TacitError(
                f"The manifest of {shown(self.name)} lists {len(paths)} files; it must list 1 "
                f"to {MAX_FILES}."
            )
        if len({PurePosixPath(path) for path in paths}) < len(paths):
            raise TacitError(
                f"The manifest of {shown(self.name)} lists one path twice; list each once."
            )


def read_manifest(path: Path) -> Manifest:
    """A TOML file: `name`, `licence`, and `[[file]]` with `url`, `sha256`, `bytes`, `path`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "few.toml")
    ...     _ = path.write_text(
    ...         'name = "few"\\nlicence = "free"\\n[[file]]\\nurl = "https://example.org/a"\\n'
    ...         f'sha256 = "{"0" * 64}"\\nbytes = 1\\npath = "a"\\n'
    ...     )
    ...     read_manifest(path).files[0].path
    'a'
    """
    refuse_special(path)
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise TacitError(
                f"{str(path)!r} is too large for a manifest ({MAX_MANIFEST_BYTES} bytes)."
            )
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise TacitError(f"There is no manifest at {str(path)!r}; check the path.") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no TOML, no UTF-8
        raise TacitError(f"{str(path)!r} is not a readable TOML file ({said(error)}).") from None
    where = repr(str(path))
    _check(content, {"name": str, "licence": str, "file": list}, where)
    kinds = {"url": str, "sha256": str, "bytes": int, "path": str}
    for entry in content["file"]:
        _check(entry, kinds, f"a [[file]] of {where}")
    files = tuple(ManifestFile(**entry) for entry in content["file"])
    return Manifest(content["name"], content["licence"], files)


def _refuse_outside(what: str, path: str) -> None:
    """Refuse a path that leads out of the folder it is put under, or that no file could have."""
    parts = PurePosixPath(path).parts
    unsafe = path.startswith("/") or ".." in parts or not parts
    if unsafe or any(mark in path for mark in "\\:") or not path.isprintable():
        raise TacitError(
            f"The {what} {shown(path)} must be relative, with forward slashes, and stay inside "
            "the destination."
        )


def _check(table: Any, kinds: dict[str, type], where: str) -> None:
    if not isinstance(table, dict):
        raise TacitError(f"{where} must be a table with {', '.join(kinds)}.")
    for key in table:
        if key not in kinds:
            raise TacitError(f"{where} has an unknown entry {shown(key)}; {nearest(key, kinds)}")
    for key, kind in kinds.items():
        if type(table.get(key)) is not kind:
            raise TacitError(f"{where} needs an entry {key!r} of type {kind.__name__}.")
