"""Delimited text files (also gzipped) as frames of text columns, with plain words for bad ones."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tacit.errors import TacitError, shown
from tacit.files import reading, refuse_special
from tacit.memory import available_bytes

# Two colons first: a single separator inside a MovieLens title must not win over them.
SEPARATORS = ("::", "\t", ",", ";", "|", " ")
_GZIP = b"\x1f\x8b"
_HEAD = 65536
_PIECE = 1 << 24
MEMORY_PER_BYTE = 8  # of text, unpacked: about what reading a table takes


def read_bytes(path: Path) -> bytes:
    """The content of a text file, unpacked if it is gzipped.

    Empty and binary files are refused, and those that do not fit into memory, before they fill it.
    """
    with reading(path, "check that it is a file and may be read"):
        free = available_bytes()
        most = None if free is None else free // MEMORY_PER_BYTE
        try:
            data = _unpacked(path, most)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise TacitError(
                f"{str(path)!r} is a damaged or cut-off gzip file; copy it again."
            ) from None
    if data is None:
        assert most is not None
        raise TacitError(
            f"{str(path)!r} holds more than {most / 1e9:.1f} GB of text, which is what fits into "
            "the memory that is free; use a smaller file or a machine with more memory."
        )
    if not data.strip():
        raise TacitError(f"{str(path)!r} is empty; it needs a header and one line per interaction.")
    if b"\0" in data[:_HEAD]:
        raise TacitError(
            f"{str(path)!r} is not a text file (it holds binary data); give a CSV or TSV file in "
            "UTF-8, or name a Parquet file."
        )
    return data


def _unpacked(path: Path, most: int | None) -> bytes | None:
    """The bytes of a file, gzipped or not; None as soon as there are more than `most`."""
    pieces: list[bytes] = []
    n_bytes = 0
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
        file.seek(0)
        with gzip.open(file) if zipped else file as stream:
            while piece := stream.read(_PIECE):
                n_bytes += len(piece)
                if most is not None and n_bytes > most:
                    return None
                pieces.append(piece)
    return b"".join(pieces)


def first_line(path: Path) -> str:
    """The first line, or "" when the file is not readable text: for looking, never for judging."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == _GZIP
        with gzip.open(path) if zipped else path.open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return ""
    text = "" if b"\0" in head else head.decode("utf-8-sig", errors="replace")
    return _line(text.lstrip("\r\n"))


def separator_of(line: str) -> str:
    """The separator of a line: two colons, or else the one that occurs most.

    >>> separator_of("user_id,item_id,a b"), separator_of("1::2::5"), separator_of("one")
    (',', '::', ',')
    """
    if "::" in line:
        return "::"
    counts = {separator: line.count(separator) for separator in SEPARATORS}
    # A blank is a separator only where nothing else is one: titles are full of blanks.
    best = max(SEPARATORS[1:-1], key=lambda separator: counts[separator])
    return best if counts[best] else (" " if counts[" "] else ",")


def read_text_table(
    path: Path, *, names: Sequence[str] | None = None, quoted: bool = True, latin_1: bool = False
) -> pl.DataFrame:
    """All columns as text. `names` is for files without a header: the columns, from the left.

    `quoted` says whether double quotes enclose fields. `latin_1` allows that older encoding where
    the file is not UTF-8, as MovieLens files are.
    """
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").rstrip(b"\r\n \t")
    if latin_1 and not _is_utf8(data):
        data = data.decode("latin-1").encode()
    head = _line(data[:_HEAD].decode(errors="replace"))
    separator = separator_of(head)
    if separator == "::":
        data, head, separator = data.replace(b"::", b"\t"), head.replace("::", "\t"), "\t"
    if names is None:
        check_header(_fields(head, separator, quoted, path), path)
    frame = _parse(data, separator, names is None, quoted, path)
    if names is not None:
        if frame.width < len(names):
            raise TacitError(
                f"{str(path)!r} has {frame.width} columns where {len(names)} are expected "
                f"({', '.join(names)}); check that it is the file you meant."
            )
        frame = frame.rename(dict(zip(frame.columns, names, strict=False)))
    else:
        if any("\n" in name for name in frame.columns):
            raise TacitError(
                f"The header of {str(path)!r} has a quote that is not closed in its line; close "
                "it, or take it away."
            )
        stripped = [name.strip() for name in frame.columns]
        check_header(stripped, path)  # again: an unclosed quote is read differently by the parser
        frame.columns = stripped
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines


def _parse(data: bytes, separator: str, header: bool, quoted: bool, path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(
            data,
            separator=separator,
            has_header=header,
            quote_char='"' if quoted else None,
            infer_schema=False,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if not _is_utf8(data):
            reason = "it is not UTF-8 text; save it as UTF-8"
        elif quoted and (line := _odd_quotes(data)) is not None:
            reason = f"line {line} has an odd number of quotes; close them, or take them away"
        elif "more fields" in str(error):
            reason = "one of its lines has more fields than the first; check separators and quotes"
        else:
            reason = "check that quotes are closed and every line has the same fields"
        raise TacitError(f"{str(path)!r} cannot be read as a table: {reason}.") from None


def _odd_quotes(data: bytes) -> int | None:
    """The first line in which a quote is opened and not closed, counted from 1."""
    lines = enumerate(data.splitlines(), 1)
    return next((number for number, line in lines if line.count(b'"') % 2), None)


def _line(text: str) -> str:
    return text.split("\n", 1)[0].rstrip("\r")


def _fields(line: str, separator: str, quoted: bool, path: Path) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator)) if quoted else line.split(separator)
    except csv.Error:
        raise TacitError(
            f"The header of {str(path)!r} cannot be read; check its quotes and line ends."
        ) from None


def check_header(header: list[str], path: Path) -> None:
    """Refuse a header that names one column twice."""
    names = [name.strip() for name in header]
    repeated = [name for name, number in Counter(names).items() if number > 1]
    if repeated:
        raise TacitError(
            f"The header of {str(path)!r} names column {shown(repeated[0])} twice; rename one of "
            "them."
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
