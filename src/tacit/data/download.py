"""Manifests of published files, and fetching what they describe: checked, resumable, never half
there.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, url2pathname

from tacit.data.load import how_to_get
from tacit.data.sources import SOURCES
from tacit.errors import TacitError, nearest, shown
from tacit.files import NotWrittenError, make_folder, refuse_special, said, writing

# Manifests: which files make up a dataset, where they are fetched from, and how to know them.

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
    if unsafe or any(sign in path for sign in "\\:") or not path.isprintable():
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


# Fetching files that a manifest describes: checked, resumable, and never half there.
#
# No addresses or checksums are shipped. A file is fetched under a temporary name, its SHA-256 is
# compared, and only then does it get its own name.

DownloadProgress = Callable[[str, int, int], None]  # path, bytes so far, bytes in all

TIMEOUT_SECONDS = 30.0
_CHUNK = 1 << 16


def get(
    name_or_manifest: str | Path | Manifest,
    destination: str | Path,
    progress: DownloadProgress | None = None,
) -> tuple[Path, ...]:
    """Fetch every file of a manifest into `destination`; files that are already right are kept.

    A named source has no verified manifest, so the message says where its owner publishes it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     origin = Path(folder, "origin.csv")
    ...     _ = origin.write_text("user,item\\n")
    ...     digest = hashlib.sha256(origin.read_bytes()).hexdigest()
    ...     file = ManifestFile(origin.as_uri(), digest, 10, "data/few.csv")
    ...     [path.name for path in get(Manifest("few", "free", (file,)), folder)]
    ['few.csv']
    """
    manifest = _manifest(name_or_manifest)
    folder = Path(destination)
    return tuple(_fetch(file, folder / file.path, progress) for file in manifest.files)


def _manifest(name_or_manifest: str | Path | Manifest) -> Manifest:
    if isinstance(name_or_manifest, Manifest):
        return name_or_manifest
    source = SOURCES.get(str(name_or_manifest))
    if source is not None and source.load is not None:
        raise TacitError(f"The dataset {source.name!r} is made by a function; nothing is to get.")
    if source is not None:
        raise TacitError(how_to_get(source))
    path = Path(name_or_manifest)
    if path.suffix != ".toml" and not os.path.exists(path):
        known = nearest(str(name_or_manifest), SOURCES)
        raise TacitError(f"There is no source and no manifest {str(name_or_manifest)!r}; {known}")
    return read_manifest(path)


def _fetch(file: ManifestFile, path: Path, progress: DownloadProgress | None) -> Path:
    if path.is_file() and path.stat().st_size == file.bytes and _sha256(path) == file.sha256:
        return path
    part = path.with_name(path.name + ".part")
    try:
        make_folder(path.parent)
        _transfer(file, path, part, progress)
        if _sha256(part) != file.sha256:
            part.unlink()
            raise TacitError(
                f"{file.url!r} is not the expected file (its SHA-256 differs); it was thrown away: "
                "check the manifest, or fetch again."
            )
        with writing(path):
            os.replace(part, path)
    except NotWrittenError:
        with suppress(OSError):  # the disk needs the room; a broken connection keeps its part
            part.unlink(missing_ok=True)
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: not an address at all
        if isinstance(error, HTTPError) and error.code == 416:
            part.unlink(missing_ok=True)  # there is nothing after what we hold: begin anew
        reason = f"status {error.code}" if isinstance(error, HTTPError) else str(error)
        raise TacitError(
            f"{file.url!r} could not be fetched into {str(path)!r} ({reason}); check the address "
            "and the connection, then run again to go on where it stopped."
        ) from None
    return path


def _transfer(
    file: ManifestFile, path: Path, part: Path, progress: DownloadProgress | None
) -> None:
    """Fill `part` to its full size, from where an earlier attempt stopped if the server can."""
    done = part.stat().st_size if part.is_file() else 0
    if done > file.bytes:
        part.unlink()
        done = 0
    if done == file.bytes:
        return
    if file.url.lower().startswith("file:"):
        refuse_special(Path(url2pathname(urlsplit(file.url).path)))
    request = Request(file.url, headers={"Range": f"bytes={done}-"} if done else {})
    with build_opener(_OnlyHttp()).open(request, timeout=TIMEOUT_SECONDS) as response:
        if done and getattr(response, "status", None) != 206:
            done = 0  # the server sends the whole file again
        with writing(path):
            out = part.open("ab" if done else "wb", buffering=0)
        with out:
            while done < file.bytes and (chunk := response.read(min(_CHUNK, file.bytes - done))):
                with writing(path):
                    done += _write_all(out, chunk)
                if progress is not None:
                    progress(file.path, done, file.bytes)
        longer = done == file.bytes and response.read(1) != b""
    if longer:
        part.unlink()
        raise TacitError(
            f"{file.url!r} is longer than the {file.bytes} bytes of the manifest; it was thrown "
            "away."
        )
    if done < file.bytes:
        raise TacitError(
            f"{file.url!r} ended after {done} of {file.bytes} bytes; run again to go on from there."
        )


def _write_all(out: IO[bytes], chunk: bytes) -> int:
    """Without a buffer: a disk that is full says so here, not when the file is closed."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[out.write(rest) :]
    return len(chunk)


class _OnlyHttp(HTTPRedirectHandler):
    """Follows redirections (a bounded number, as the base class does) to web addresses only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise TacitError(f"{req.full_url!r} redirects to {newurl!r}, which is no web address.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
