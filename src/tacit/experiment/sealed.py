"""Records that notice when they were changed: JSON with a format and a checksum of its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tacit.files import said, write_text

FORMAT = 2  # of run folders; 1 had neither checksums nor a record of their data
SEAL = "seal"
NO_MATCH = "its checksum does not match"


class DamagedError(ValueError):
    """A record that cannot be taken at its word; the message says why in a few words."""


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a record with its format and its seal, whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sealed(Path(folder, "one.json"), {"round": 3})
    ...     read_sealed(Path(folder, "one.json"))
    {'format': 2, 'round': 3}
    """
    write_text(path, sealed_text(content))


def sealed_text(content: dict[str, Any]) -> str:
    """A record as `write_sealed` writes it."""
    record = {"format": FORMAT, **content}
    return json.dumps({**record, SEAL: _seal_of(record)}, indent=1) + "\n"


def read_sealed(path: Path) -> dict[str, Any]:
    """A record of this format, without its seal; DamagedError where it is anything else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sealed(Path(folder, "one.json"), {"round": 3})
    ...     text = Path(folder, "one.json").read_text()
    ...     _ = Path(folder, "one.json").write_text(text.replace("3", "4"))
    ...     read_sealed(Path(folder, "one.json"))
    Traceback (most recent call last):
    tacit.experiment.sealed.DamagedError: its checksum does not match
    """
    return opened(object_in(content_of(path)))


def opened(record: dict[str, Any]) -> dict[str, Any]:
    """A sealed record without its seal, once that was found to fit."""
    content = {key: value for key, value in record.items() if key != SEAL}
    known = content.get("format")
    if isinstance(known, int) and known > FORMAT:
        raise DamagedError(f"it is of format {known}, which a newer version of tacit wrote")
    if SEAL not in record or record[SEAL] != _seal_of(content):
        raise DamagedError(NO_MATCH)
    return content


def content_of(path: Path) -> bytes:
    """The bytes of a file; what the system refuses is a damage like any other."""
    _require_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedError(f"it cannot be read: {said(error)}") from error


def object_in(content: bytes) -> dict[str, Any]:
    """The JSON object of some bytes.

    >>> object_in(b"[]")
    Traceback (most recent call last):
    tacit.experiment.sealed.DamagedError: it holds no JSON object
    """
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON: {said(error)}") from error
    if not isinstance(value, dict):
        raise DamagedError("it holds no JSON object")
    return value


def checksum(content: bytes) -> str:
    """What tells some bytes from damaged ones.

    >>> len(checksum(b"one"))
    32
    """
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_checksum(path: Path) -> str:
    """What tells a file from a damaged one, however large it is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "one")
    ...     _ = path.write_bytes(b"one")
    ...     file_checksum(path) == checksum(b"one")
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def require_checksum(path: Path, expected: object) -> None:
    """DamagedError unless a file is there and is the very one that was written."""
    _require_file(path)
    try:
        found = file_checksum(path)
    except OSError as error:
        raise DamagedError(f"it cannot be read: {said(error)}") from error
    if found != expected:
        raise DamagedError(NO_MATCH)


def _require_file(path: Path) -> None:
    """A folder cannot be read, and a pipe would be waited for."""
    if path.exists() and not path.is_file():
        raise DamagedError("it is no file")


def _seal_of(content: dict[str, Any]) -> str:
    return checksum(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
