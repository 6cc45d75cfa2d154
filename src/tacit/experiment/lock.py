"""One process at a time writes into a run folder; the system lets go when a process dies."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tacit.errors import TacitError
from tacit.files import make_folder, said

LOCK = ".lock"
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Holds a run folder (and makes it if it is not there); whoever comes second is told so.

    The lock belongs to the open file, not to its name: a killed process leaves at most an empty
    file behind, and holds nothing. On a file system without locks nobody is held off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name, only_process(Path(name)):
    ...     try:
    ...         with only_process(Path(name)):
    ...             print("two at once")
    ...     except TacitError as error:
    ...         print(str(error).startswith("Another process is running in"))
    True
    """
    make_folder(folder)
    handle = _held(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # on Windows an open file keeps its name until it is closed
            (folder / LOCK).unlink()
        os.close(handle)
        with suppress(OSError):
            if sys.platform == "win32":
                (folder / LOCK).unlink()


def _held(folder: Path) -> int:
    path = folder / LOCK
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise TacitError(
                f"{str(path)!r} could not be written ({said(error)}); choose a folder that may be "
                "written with --out."
            ) from error
        try:
            _take(handle)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return handle
            os.close(handle)
            if error.errno not in _TAKEN:
                raise TacitError(
                    f"{str(path)!r} could not be locked ({said(error)}); choose another --out."
                ) from error
            raise TacitError(
                f"Another process is running in {str(folder)!r}; wait until it has ended, or "
                "choose another --out."
            ) from error
        if _is_still(path, handle):
            return handle
        os.close(handle)  # who held it before has removed its name: take the new one


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False
