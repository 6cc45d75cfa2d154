"""Parquet files as frames, with plain words when they are damaged, something else, or too large.

A Parquet file of a megabyte may unpack to gigabytes, and where those do not fit, the library that
reads it ends the whole process. So its footer is looked at first: it tells how many rows there are
and how many bytes their columns unpack to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tacit.errors import TacitError
from tacit.files import reading, refuse_special
from tacit.memory import require_memory

BYTES_PER_ROW = 100  # of memory, for a user, an item and their codes: about what reading takes
_MAGIC = b"PAR1"
_LONGEST_FOOTER = 16_000_000  # bytes; usual ones have thousands

# The footer is a tree of numbered fields in Thrift's compact form. These are the numbers we read.
_ROWS, _ROW_GROUPS = 3, 4  # of the file
_UNPACKED, _ROWS_OF_GROUP = 2, 3  # of a row group


def is_parquet(path: Path) -> bool:
    """Whether the file begins as a Parquet file does, whatever its name."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def read_parquet(path: Path) -> pl.DataFrame:
    """The whole file; a damaged one is the reader's mistake to report, not a traceback."""
    with reading(path, "check that it may be read"):
        size = path.stat().st_size
        if size == 0:
            raise TacitError(f"{str(path)!r} is empty (0 bytes); copy or export it again.")
        if not is_parquet(path):
            raise TacitError(f"{str(path)!r} is not a Parquet file, whatever its name says.")
        _require_room(path)
        try:
            return pl.read_parquet(path)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise _damaged(path) from None


@dataclass(frozen=True)
class Contents:
    """What the footer announces.

    >>> Contents(rows=3, unpacked_bytes=48).needed_bytes
    348
    """

    rows: int
    unpacked_bytes: int

    @property
    def needed_bytes(self) -> int:
        return self.rows * BYTES_PER_ROW + self.unpacked_bytes


def contents_of(path: Path) -> Contents:
    """Rows and unpacked bytes of a Parquet file, by its footer alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"user": [1, 2, 3]}).write_parquet(Path(folder) / "few.parquet")
    ...     contents_of(Path(folder) / "few.parquet").rows
    3
    """
    try:
        footer = _Thrift(_footer(path)).struct()
        groups = footer.get(_ROW_GROUPS, [])
        rows = [group[_ROWS_OF_GROUP] for group in groups]
        unpacked = [group[_UNPACKED] for group in groups]
        # the two counts are the same, unless somebody made them differ
        return Contents(max(int(footer[_ROWS]), sum(rows)), sum(unpacked))
    except (LookupError, TypeError, RecursionError):
        raise _damaged(path) from None


def _require_room(path: Path) -> None:
    contents = contents_of(path)
    require_memory(
        contents.needed_bytes,
        what=f"The {contents.rows:,} rows of {str(path)!r}",
        hint="use a smaller file or a machine with more memory",
    )


def _footer(path: Path) -> bytes:
    """The last bytes of a file are its footer, the length of that, and the magic again."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little")
        if size < 12 or tail[4:] != _MAGIC or length > size - 12:
            raise _damaged(path)
        if length > _LONGEST_FOOTER:
            raise TacitError(
                f"{str(path)!r} has {length:,} bytes of notes on its parts, more than "
                f"{_LONGEST_FOOTER:,}; write it with fewer columns or larger row groups."
            )
        file.seek(size - 8 - length)
        return file.read(length)


def _damaged(path: Path) -> TacitError:
    return TacitError(f"{str(path)!r} is a damaged or cut-off Parquet file; copy it again.")


class _Thrift:
    """A tree of numbered fields, as Thrift's compact form writes it; texts are passed over."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):  # a truth value within a list, a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._varint())
        if kind in (9, 10):
            head = self._byte()
            length = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15) for _ in range(self._at_most(length))]
        if kind == 12:
            return self.struct()
        raise IndexError(kind)  # nothing that a footer holds

    def _at_most(self, length: int) -> int:
        if length > len(self.data):
            raise IndexError(length)
        return length

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _skip(self, length: int) -> None:
        self.at += self._at_most(length)

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise IndexError(shift)

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
