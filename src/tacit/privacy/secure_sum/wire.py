"""Frozen dataclasses as bytes and back, without pickle.

Fields are whole numbers (eight bytes), floats (eight bytes), bytes (their length before them),
other such dataclasses, and tuples of all these (their number before them). There is exactly one way
to write a value, so hashes and signatures of bytes are hashes and signatures of values.
"""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from tacit.errors import TacitError

T = TypeVar("T")
COUNT = struct.Struct("<I")


def pack(value: Any, prefix: bytes = b"") -> bytes:
    """The bytes of a frozen dataclass, after a prefix.

    >>> from tacit.privacy.fixed_point import FixedPoint
    >>> unpack(FixedPoint, pack(FixedPoint(1.0, 2**-4, 3)))
    FixedPoint(bound=1.0, step=0.0625, length=3)
    """
    parts = [prefix]
    _write(type(value), value, parts)
    return b"".join(parts)


def unpack(kind: type[T], data: bytes, start: int = 0) -> T:
    """The value that was written; anything that `pack` would not have written is refused."""
    value, end = _read(kind, data, start)
    if end != len(data):
        raise _unreadable(kind)
    return value


class _Form(NamedTuple):
    """How values of a type are written: as a number, as bytes, or in parts."""

    number: struct.Struct | None = None
    each: Any = None  # the type of a tuple's values
    fields: tuple[tuple[str, Any], ...] = ()


@cache
def _form(kind: Any) -> _Form:
    if kind is bytes:
        return _Form()
    if kind in (int, float):
        return _Form(number=struct.Struct("<Q" if kind is int else "<d"))
    if get_origin(kind) is tuple:
        return _Form(each=get_args(kind)[0])
    if is_dataclass(kind):
        types = get_type_hints(kind)
        return _Form(fields=tuple((one.name, types[one.name]) for one in fields(kind)))
    raise TypeError(f"a field of type {kind} cannot be written")


def _write(kind: Any, value: Any, parts: list[bytes]) -> None:
    form = _form(kind)
    if form.number is not None:
        parts.append(form.number.pack(value))
    elif form.fields:
        for name, inner in form.fields:
            _write(inner, getattr(value, name), parts)
    else:
        parts.append(COUNT.pack(len(value)))
        if form.each is None:
            parts.append(value)
        else:
            for one in value:
                _write(form.each, one, parts)


def _read(kind: Any, data: bytes, at: int) -> tuple[Any, int]:
    """A value of that type, and where the next one begins."""
    form = _form(kind)
    if form.number is not None:
        return _number(form.number, kind, data, at)
    if form.fields:
        values = {}
        for name, inner in form.fields:
            values[name], at = _read(inner, data, at)
        return kind(**values), at
    count, at = _number(COUNT, kind, data, at)
    if form.each is None:
        if at + count > len(data):
            raise _unreadable(kind)
        return data[at : at + count], at + count
    found = []
    for _ in range(count):  # ends at the first that is not there
        value, at = _read(form.each, data, at)
        found.append(value)
    return tuple(found), at


def _number(form: struct.Struct, kind: Any, data: bytes, at: int) -> tuple[Any, int]:
    if at + form.size > len(data):
        raise _unreadable(kind)
    return form.unpack_from(data, at)[0], at + form.size


def _unreadable(kind: Any) -> TacitError:
    name = getattr(kind, "__name__", str(kind))
    return TacitError(f"Bytes that should hold a {name} are cut off, too long or damaged.")
