"""Between typed values and plain tables: `encode`, `decode`, and `assign` for one dotted field."""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from tacit.core.registry import PARTS, part_name, registration
from tacit.core.types import NOT_WRITTEN
from tacit.data.protocol import ADDED_LATER
from tacit.errors import TacitError, nearest, shown
from tacit.names import not_loaded

LARGEST = 2**63 - 1


def encode(value: Any) -> Any:
    """A value as plain tables, lists and scalars; parts carry their name under "part".

    >>> from tacit.core.optim import Sgd
    >>> encode(Sgd(rate=0.5))
    {'part': 'sgd', 'rate': 0.5, 'decay': 1.0, 'weight_decay': 0.0}
    """
    if is_dataclass(value) and not isinstance(value, type):
        name = part_name(type(value))
        plain = {"part": name} if name else {}
        for field in written_fields(value):
            inner = getattr(value, field.name)
            if field.metadata.get(ADDED_LATER) and inner == field.default:
                continue
            if inner is not None:  # TOML has no null: what is not there is unset
                plain[field.name] = encode(inner)
        return plain
    if isinstance(value, tuple):
        return [encode(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def written_fields(value: Any) -> list[Field[Any]]:
    """The fields that a value's text has; data in memory, for one, is not in it."""
    return [field for field in fields(value) if not field.metadata.get(NOT_WRITTEN)]


class UnknownPartError(TacitError):
    """A name that no part has here: mistyped, or that of a part which another program registered.

    >>> str(UnknownPartError("repalce", "sync"))[:58]
    "Unknown part 'repalce' at sync; did you mean 'replace'? Kn"
    """

    def __init__(self, name: str, where: str) -> None:
        self.name, self.where = name, where
        known = nearest(name, PARTS) + not_loaded()
        super().__init__(
            f"Unknown part {name!r} at {where}; {known} A part of your own must be registered in "
            f'this program too: from tacit import register; register("{name}", '
            "YourClass)."
        )


def unwritable(value: Any, kind: Any, where: str = "") -> str | None:
    """What in a value no file can hold, in a sentence that says what to do; None where all is well.

    `kind` is the annotated type of the place where the value stands.

    >>> from tacit.core.method import Method
    >>> from tacit.methods import fedmf
    >>> unwritable(fedmf(), Method) is None
    True
    """
    place = where or "the experiment"
    if is_dataclass(value) and not isinstance(value, type):
        if part_name(type(value)) is None and not _names(kind, type(value)):
            return (
                f"{type(value).__name__} in {place} is in no list of parts, so no file can name "
                f"it; register it first: {registration(type(value))}."
            )
        hints = _hints(type(value))
        for field in written_fields(value):
            inner = f"{where}.{field.name}" if where else field.name
            found = unwritable(getattr(value, field.name), hints[field.name], inner)
            if found is not None:
                return found
        return None
    if isinstance(value, tuple):
        each = (unwritable(one, kind, f"{where}.{index}") for index, one in enumerate(value))
        return next((found for found in each if found is not None), None)
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return None
    if _holds_parts(kind):
        return (
            f"{type(value).__name__} in {place} is no dataclass, so no file can hold its settings; "
            f"make it a frozen dataclass and register it: {registration(type(value))}."
        )
    return (
        f"{place} is a {type(value).__name__}, which no file can hold; give it a number, a word, a "
        "tuple of those, or a part of its own."
    )


def _names(kind: Any, part: type) -> bool:
    """Whether an annotated type names a class itself: then no name is needed to read it back."""
    return kind is part or any(_names(inner, part) for inner in typing.get_args(kind))


def decode(plain: Any, kind: Any, where: str = "") -> Any:
    """The typed value of a plain one; unknown keys and wrong kinds stop with a sentence.

    >>> from tacit.core.optim import Sgd
    >>> decode({"part": "sgd", "rate": 0.5}, Sgd) == Sgd(rate=0.5)
    True
    """
    if isinstance(plain, dict):
        return _decode_table(plain, kind, where)
    if isinstance(plain, list) and typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)
        if inner[-1] is Ellipsis:
            inner = (inner[0],) * len(plain)
        if len(inner) != len(plain):
            raise TacitError(f"{where} is {shown(plain)}: it must have {len(inner)} entries.")
        return tuple(
            decode(element, inner[index], f"{where}.{index}") for index, element in enumerate(plain)
        )
    return check_value(plain, kind, where)


def _decode_table(plain: dict[str, Any], kind: Any, where: str) -> Any:
    table = dict(plain)
    name = table.pop("part", None)
    if name is not None:
        if not isinstance(name, str) or name not in PARTS:
            if isinstance(name, str) and where:
                raise UnknownPartError(name, where)
            ending = nearest(str(name), PARTS)
            raise TacitError(f"Unknown part {shown(name)} at {where or 'top'}; {ending}")
        slot, kind = kind, PARTS[name]
    else:
        kind = _one_table(kind)
    if not is_dataclass(kind):
        raise TacitError(
            f"{where or 'The value'} is a table; add the key 'part' to say which part."
        )
    hints = _hints(kind)
    known = {field.name for field in written_fields(kind)}
    for key in table:
        if key not in known:
            place = f"{where}.{key}" if where else key
            raise TacitError(f"Unknown key {shown(place)}; {nearest(key, known)}")
    values = {
        key: decode(inner, hints[key], f"{where}.{key}" if where else key)
        for key, inner in table.items()
    }
    try:
        value = kind(**values)  # type: ignore[operator]
    except TypeError as error:
        raise TacitError(f"{where or 'The configuration'} is incomplete: {error}.") from error
    if name is not None and not _fits(value, slot):
        raise TacitError(
            f"{where or 'The value'} cannot be {name!r}: that is another kind of part."
        )
    return value


def _one_table(kind: Any) -> Any:
    """The only class of tables among the types of a place, which then needs no name there."""
    tables: list[Any] = [inner for inner in typing.get_args(kind) if is_dataclass(inner)]
    return tables[0] if len(tables) == 1 and part_name(tables[0]) is None else kind


def _fits(value: Any, slot: Any) -> bool:
    return isinstance(slot, (type, types.UnionType)) and isinstance(value, slot)


def _holds_parts(kind: Any) -> bool:
    """Whether an annotated type names a class that is no number, word or tuple of Python's own."""
    is_class = isinstance(kind, type) and kind.__module__ not in ("builtins", "typing")
    return is_class or any(map(_holds_parts, typing.get_args(kind)))


def check_value(value: Any, kind: Any, where: str) -> Any:
    """A scalar (or list) checked against its annotated type, lists as tuples.

    A truth value is no number, and whole numbers must fit into 64 bits, as arrays hold them.
    """
    if _holds_parts(kind):
        raise TacitError(
            f"{where} is {shown(value)}, but it must be a part: set one of its fields."
        )
    for scalar in _scalars(value):
        if isinstance(scalar, bool):
            if not _allows_truth(kind):
                raise TacitError(
                    f"{where} is {scalar}: input should be a valid number or word, not true or "
                    "false."
                )
        elif isinstance(scalar, int) and not -LARGEST <= scalar <= LARGEST:
            raise TacitError(
                f"{where} is {shown(scalar)}; a whole number must lie between -{LARGEST} and "
                f"{LARGEST}."
            )
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise TacitError(f"{where} is {shown(value)}: {_plain_words(problem)}.") from error


def _scalars(value: Any) -> Iterator[Any]:
    """What lists and tables hold, however deep."""
    if isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _scalars(inner)
    else:
        yield value


def _allows_truth(kind: Any) -> bool:
    """Whether true and false are among the values of an annotation."""
    return kind in (bool, Any) or any(
        choice is True or choice is False or _allows_truth(choice)
        for choice in typing.get_args(kind)
    )


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of a class; the one that is kept takes, for mypy, no class of dataclasses."""
    return _found_hints(kind)


@cache
def _found_hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _plain_words(message: str) -> str:
    return message[0].lower() + message[1:].rstrip(".")


def assign(value: Any, path: str, text: str) -> Any:
    """The value with one dotted field replaced, as `--set local.items.rate=0.05` does.

    >>> from tacit.methods import fedmf
    >>> assign(fedmf(), "local.items.rate", "0.05").local.items.rate
    0.05
    """
    return _assign(value, path.split("."), text, path)


def _assign(value: Any, steps: list[str], text: str, path: str) -> Any:
    step, rest = steps[0], steps[1:]
    if isinstance(value, tuple) and step.isdigit() and int(step) < len(value):
        if not rest:
            raise TacitError(f"Cannot set {path!r} alone; set a field of it, or the whole list.")
        index = int(step)
        inner = _assign(value[index], rest, text, path)
        return (*value[:index], inner, *value[index + 1 :])
    known = [field.name for field in written_fields(value)] if is_dataclass(value) else []
    if step not in known:
        known = known or [str(n) for n in range(len(value))] if isinstance(value, tuple) else known
        ending = nearest(step, known) if known else "it has no fields."
        raise TacitError(f"Cannot set {path!r}: there is no {step!r} in it; {ending}")
    if rest:
        return replace(value, **{step: _assign(getattr(value, step), rest, text, path)})
    kind = _hints(type(value))[step]
    return replace(value, **{step: decode(_literal(text, kind), kind, path)})


def _literal(text: str, kind: Any) -> Any:
    """A flag's text as TOML would read it; plain words are strings, "none" unsets."""
    if text.lower() == "none" and type(None) in typing.get_args(kind):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, thousands of digits, thousands of brackets
        return text
