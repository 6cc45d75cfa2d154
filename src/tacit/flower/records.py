"""Letters as Flower's records, and back: plain values in a ConfigRecord, arrays in an ArrayRecord.

Nothing is pickled. What a peer sent is measured before it is decoded: how many fields and arrays,
how many bytes, and whether the declared shape is the one that the bytes have. Anything else is
refused in a sentence.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from tacit.errors import TacitError, shown
from tacit.wire.messages import DTYPES, Letter, Value

VALUES = "values"
ARRAYS = "arrays"
KIND = "kind"  # of the letter, beside its values

NPY = "numpy.ndarray"  # what Flower calls bytes in the format of numpy's own files
HEADER = 1024  # more bytes than the header of such a file needs


def flower(module: str = "flwr.app") -> ModuleType:
    """A module of Flower; where it is not installed, that is said.

    >>> flower("flwr.no_such_module")
    Traceback (most recent call last):
    tacit.errors.TacitError: A deployment needs Flower; install it with: pip install 'tacit[flower]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise TacitError(
            "A deployment needs Flower; install it with: pip install 'tacit[flower]'"
        ) from error


@dataclass(frozen=True)
class Limits:
    """The most that one message may hold; a larger one is not decoded."""

    fields: int = 64
    arrays: int = 256
    bytes: int = 512 * 2**20  # of values and of arrays, each


LIMITS = Limits()


def to_records(letter: Letter) -> Any:
    """A letter as a `RecordDict`."""
    app = flower()
    values = {KIND: letter.kind, **letter.values}
    records = {VALUES: app.ConfigRecord(values)}
    if letter.arrays:
        arrays = {name: _packed(app, array) for name, array in letter.arrays.items()}
        records[ARRAYS] = app.ArrayRecord(arrays)
    return app.RecordDict(records)


def from_records(records: Any, limits: Limits = LIMITS) -> Letter:
    """The letter in a `RecordDict` that a peer sent; anything else is refused."""
    if not set(records) <= {VALUES, ARRAYS} or VALUES not in records.config_records:
        raise TacitError("A message has other records than one of values and one of arrays.")
    values = _values(dict(records.config_records[VALUES]), limits)
    kind = values.pop(KIND, None)
    if not isinstance(kind, str):
        raise TacitError("A message does not say of which kind it is.")
    arrays: dict[str, np.ndarray] = {}
    if ARRAYS in records:
        if ARRAYS not in records.array_records:
            raise TacitError("A message has something else where its arrays should be.")
        arrays = _arrays(dict(records.array_records[ARRAYS]), limits)
    return Letter(kind, values, arrays)


def _values(found: dict[str, Any], limits: Limits) -> dict[str, Value]:
    if len(found) > limits.fields:
        raise TacitError(f"A message has {len(found)} fields; {limits.fields} is the most.")
    size = 0
    for name, value in found.items():
        inner = value if isinstance(value, list) else [value]
        if isinstance(value, list) and not all(type(one) is str for one in value):
            raise TacitError(f"The field {shown(name)} is a list of something else than words.")
        size += len(name) + sum(len(one) if isinstance(one, str | bytes) else 8 for one in inner)
    if size > limits.bytes:
        raise TacitError(f"A message has values of {size:,} bytes; {limits.bytes:,} is the most.")
    return found


def _arrays(found: dict[str, Any], limits: Limits) -> dict[str, np.ndarray]:
    if len(found) > limits.arrays:
        raise TacitError(f"A message has {len(found)} arrays; {limits.arrays} is the most.")
    size = sum(len(one.data) for one in found.values())
    if size > limits.bytes:
        raise TacitError(f"A message has arrays of {size:,} bytes; {limits.bytes:,} is the most.")
    return {name: _unpacked(name, one) for name, one in found.items()}


def _packed(app: ModuleType, array: np.ndarray) -> Any:
    """In the order of C and with the low byte first, whatever this machine prefers."""
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    buffer = io.BytesIO()
    npy.write_array(buffer, plain, version=(1, 0), allow_pickle=False)
    return app.Array(plain.dtype.name, tuple(plain.shape), NPY, buffer.getvalue())


def _unpacked(name: str, packed: Any) -> np.ndarray:
    """An array of exactly the declared shape, as a copy that may be written. Its bytes are read
    only when they fit."""
    wrong = TacitError(f"The array {shown(name)} is not what its message declares.")
    shape = tuple(packed.shape)
    if packed.stype != NPY or packed.dtype not in DTYPES:
        raise TacitError(f"The array {shown(name)} has a type that no message carries.")
    if not all(type(side) is int and side >= 0 for side in shape):
        raise wrong
    dtype = np.dtype(packed.dtype).newbyteorder("<")
    size = math.prod(shape) * dtype.itemsize
    if not size < len(packed.data) <= size + HEADER:
        raise wrong
    try:
        return _read_npy(packed.data, shape, dtype).astype(np.dtype(packed.dtype))
    except Exception as error:  # numpy reads the header with Python's own tokenizer
        raise wrong from error


def _read_npy(content: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The array in a file of numpy that holds this shape and type and nothing else. Whatever is
    wrong with it raises, as numpy does."""
    stream = io.BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another version of the format")
    header = npy.read_array_header_1_0(stream, max_header_size=HEADER)
    begin = stream.tell()
    if header != (shape, False, dtype) or len(content) != begin + math.prod(shape) * dtype.itemsize:
        raise ValueError("another shape or type")
    return np.frombuffer(content, dtype=dtype, offset=begin).reshape(shape)
