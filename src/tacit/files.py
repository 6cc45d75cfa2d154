"""Files are written whole or not at all, and read with a sentence where that fails.

Every writer of the project goes through `whole_file`, every reader of a file that a person gave
goes through `reading`. A full disk, a read-only folder and too little memory then end the same way
everywhere: one sentence with the path and what to do, and nothing half-written beside it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tacit.errors import TacitError

PART = ".part"  # what a file is called until it is whole

_REMEDIES = {
    errno.ENOSPC: "make room on that disk and give the same command again",
    errno.EDQUOT: "make room on that disk and give the same command again",
    errno.EFBIG: "make room on that disk and give the same command again",
    errno.EROFS: "choose a folder that may be written",
    errno.EACCES: "choose a folder that may be written",
    errno.EPERM: "choose a folder that may be written",
    errno.ENOTDIR: "a part of that path is a file; choose another folder",
    errno.EISDIR: "that is a folder; choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
}

_SPECIAL = (
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotWrittenError(TacitError):
    """The system refused to write a file: no later file can be expected to fare better."""


@contextmanager
def whole_file(
    path: Path,
    *,
    library_errors: tuple[type[Exception], ...] = (),
    shared: Path | None = None,
) -> Iterator[Path]:
    """A temporary path beside `path`: what is written there becomes `path` when the block ends.

    If the block fails, the temporary file is removed, the file that stood at `path` before still
    stands, and what the system refused is said in one sentence. `library_errors` are the words of
    the library that writes (safetensors, polars) for the same refusals. Where several processes
    may write the same file at once, `shared` is a folder that is cleared later: the temporary file
    is then there, under a name that has the process in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder, "one.txt")) as part:
    ...         _ = part.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['one.txt']
    """
    temporary = path.with_name(path.name + PART)
    if shared is not None:
        temporary = shared / f"{path.name}.{os.getpid()}{PART}"
    try:
        with writing(path, library_errors=library_errors):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):  # a folder that nobody may write in holds nothing of ours
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`, which becomes `path` (new or empty) when the block ends.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with whole_folder(Path(place, "new")) as part:
    ...         _ = Path(part, "one.txt").write_text("whole")
    ...     [str(file.relative_to(place)) for file in Path(place).glob("*/*")]
    ['new/one.txt']
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
            yield temporary
            if path.is_dir():
                path.rmdir()
            os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def append_line(path: Path, line: str) -> None:
    """Add a line at the end of a text file; where that fails, the file is as long as before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     append_line(Path(folder, "lines"), "one")
    ...     append_line(Path(folder, "lines"), "two")
    ...     Path(folder, "lines").read_text()
    'one\\ntwo\\n'
    """
    with writing(path), path.open("ab", buffering=0) as stream:
        before, rest = stream.tell(), memoryview((line + "\n").encode())
        try:
            while rest:
                rest = rest[stream.write(rest) :]
        except OSError:
            with suppress(OSError):
                stream.truncate(before)
            raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(Path(folder, "one.txt"), "whole")
    ...     Path(folder, "one.txt").read_text()
    'whole'
    """
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)


def make_folder(path: Path) -> None:
    """Make a folder and the folders above it, or say why not.

    >>> make_folder(Path("."))
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(path: Path, *, library_errors: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """What the system refuses while `path` is written, in one sentence that names it.

    >>> with writing(Path("one.txt")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    tacit.files.NotWrittenError: 'one.txt' could not be written (No space left on device); make \
room on that disk and give the same command again: what was written before still stands.
    """
    refusals: tuple[type[BaseException], ...] = (OSError, MemoryError, *library_errors)
    try:
        yield
    except refusals as error:
        raise _not_written(path, error) from error


def refuse_special(path: Path) -> None:
    """Refuse what is there but is no file to read, before it is opened: that might never end.

    >>> refuse_special(Path("/dev/null"))
    Traceback (most recent call last):
    tacit.errors.TacitError: '/dev/null' is a device, not a file; give a file with the data in it.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # not there, or no name of a file: whoever opens it says so
        return
    kind = next((word for test, word in _SPECIAL if test(mode)), None)
    if kind is not None:
        raise TacitError(f"{str(path)!r} is {kind}, not a file; give a file with the data in it.")


@contextmanager
def reading(
    path: Path, remedy: str, *, library_errors: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """What goes wrong while a file is read, in one sentence that names it and ends with `remedy`.

    A pipe or a device is refused before the block begins.

    >>> with reading(Path("none.csv"), "check the path"):
    ...     Path("none.csv").read_text()
    Traceback (most recent call last):
    tacit.errors.TacitError: 'none.csv' cannot be read (No such file or directory); check the path.
    """
    refusals: tuple[type[BaseException], ...] = (OSError, UnicodeDecodeError, *library_errors)
    refuse_special(path)
    try:
        yield
    except MemoryError as error:
        raise TacitError(
            f"{str(path)!r} needs more memory than there is; use a smaller file or a machine with "
            "more memory."
        ) from error
    except refusals as error:
        raise TacitError(f"{str(path)!r} cannot be read ({said(error)}); {remedy}.") from error


def said(error: BaseException) -> str:
    """The first line of what an error says, without a full stop and of bounded length.

    >>> said(OSError(28, "No space left on device"))
    'No space left on device'
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    lines = text.strip().splitlines()
    return (lines[0][:200] if lines else type(error).__name__).rstrip(".")


def remedy_of(error: BaseException, otherwise: str) -> str:
    """What to do about what the system refused.

    >>> remedy_of(OSError(28, "No space left on device"), "try again")
    'make room on that disk and give the same command again'
    """
    number = error.errno if isinstance(error, OSError) else None
    return _REMEDIES.get(number or 0, otherwise)


def _not_written(path: Path, error: BaseException) -> NotWrittenError:
    if isinstance(error, MemoryError):
        return NotWrittenError(
            f"{str(path)!r} could not be written: there is too little memory; use a machine with "
            "more memory, or smaller data."
        )
    remedy = remedy_of(error, "make room on that disk, or choose another folder")
    return NotWrittenError(
        f"{str(path)!r} could not be written ({said(error)}); {remedy}: what was written before "
        "still stands."
    )


def cache_dir() -> Path:
    """Where files that were fetched are kept: `$TACIT_CACHE`, or the platform's cache folder.

    >>> cache_dir().is_absolute()
    True
    """
    if chosen := os.environ.get("TACIT_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "tacit"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tacit"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"
