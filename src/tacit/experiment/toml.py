"""Experiments as TOML: the saved form of a run, and the short form that people write."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import StrictInt

from tacit.core.codec import UnknownPartError, check_value, decode, encode, unwritable
from tacit.core.registry import PARTS, part_name
from tacit.data.sources import PLANTED, SOURCES
from tacit.errors import TacitError, nearest, shown
from tacit.experiment.spec import Experiment
from tacit.files import reading, refuse_special, said
from tacit.methods import METHODS
from tacit.names import recall
from tacit.plugins.entry import PLUGINS, parse

SHORT_KEYS: dict[str, Any] = {
    "method": str,
    "data": str,
    "protocol": str,
    "preset": str,
    "plugins": list[str | dict[str, Any]],
    "rounds": StrictInt,
    "seed": StrictInt,
    "split": str,
    "columns": dict[str, str],
    "min_user": StrictInt,
    "min_rating": float,
    "core": StrictInt,
    "duplicates": str,
    "participation": float,
    "engine": str,
    "device": str,
    "set": dict[str, Any],
    "imports": list[str],
}


def dumps(experiment: Experiment) -> str:
    """The whole value, every default written out.

    >>> from tacit.experiment.resolve import resolve
    >>> one = resolve("fedmf", rounds=3)
    >>> loads(dumps(one)) == one
    True
    """
    lines: list[str] = []
    _write(encode(experiment), (), lines)
    return "\n".join(lines).strip() + "\n"


def document(experiment: Experiment) -> str:
    """The text of a saved experiment: the modules of a user's own that its names come from, as
    `--import` named them, then the whole value. Modules are no part of the value: digests and
    comparisons do not see them.

    >>> from tacit.experiment.resolve import resolve
    >>> document(resolve("fedmf")) == dumps(resolve("fedmf"))
    True
    """
    imports = imports_of(experiment)
    return (f"imports = {_scalar(imports)}\n" if imports else "") + dumps(experiment)


def imports_of(experiment: Experiment) -> list[str]:
    """The modules, as `--import` named them, from which names of an experiment come."""
    found = [
        METHODS.from_import(experiment.name),
        *(PLUGINS.from_import(parse(spelling)[0]) for spelling in experiment.plugins),
        SOURCES.from_import(experiment.data.name),
        *(PARTS.from_import(name) for name in _part_names(experiment.method)),
    ]
    return list(dict.fromkeys(spelling for spelling in found if spelling is not None))


def _part_names(value: Any) -> Iterator[str]:
    if is_dataclass(value) and not isinstance(value, type):
        name = part_name(type(value))
        if name is not None:
            yield name
        for field in fields(value):
            yield from _part_names(getattr(value, field.name))
    elif isinstance(value, tuple):
        for inner in value:
            yield from _part_names(inner)


class ImportNeededError(TacitError):
    """A saved experiment has names of a module that was not imported here."""


def _needed(refused: dict[str, str]) -> ImportNeededError:
    """What to say of imports that a text names and that were not made."""
    said = ", ".join(f"--import {spelling} ({reason})" for spelling, reason in refused.items())
    return ImportNeededError(
        f"This experiment was made with {said}; give that --import again, with the place where the "
        "module is now."
    )


def _recalled(plain: dict[str, Any], where: str) -> dict[str, str]:
    """Import the modules that a text names, and take them out of it; those that were refused."""
    return recall(check_value(plain.pop("imports", []), list[str], f"imports{where}"))


def _decoded(plain: dict[str, Any], where: str = "") -> Experiment:
    refused = _recalled(plain, where)
    try:
        experiment: Experiment = decode(plain, Experiment)
    except UnknownPartError as error:
        if refused:
            raise _needed(refused) from error
        raise
    data = experiment.data.name
    if refused and data != PLANTED and data not in SOURCES and not os.path.exists(data):
        raise _needed(refused)
    return experiment


def _write(table: dict[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    if path:
        lines.extend(["", f"[{'.'.join(path)}]"])
    for key, value in table.items():
        if not isinstance(value, dict):
            lines.append(f"{key} = {_scalar(value)}")
    for key, value in table.items():
        if isinstance(value, dict):
            _write(value, (*path, key), lines)


def _scalar(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_scalar(inner) for inner in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_scalar(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        # a JSON string is a TOML basic string, but for the one control character that JSON allows
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def require_writable(experiment: Experiment) -> None:
    """Refuse, before anything is computed, what its own folder could not give back.

    >>> from tacit.experiment.resolve import resolve
    >>> require_writable(resolve("fedmf"))
    """
    try:
        found = unwritable(experiment, Experiment)
        again = loads(dumps(experiment)) if found is None else experiment
    except (ValueError, TypeError, NameError, TacitError) as error:
        raise TacitError(
            f"This experiment cannot be read back from its own text: {str(error).rstrip('.')}; "
            "check the annotated types of your parts."
        ) from error
    if found is not None:
        raise TacitError(found)
    if again != experiment:
        raise TacitError(
            f"{_difference(experiment, again)}; make it a value that is equal to what its text "
            "says."
        )


def _difference(one: Any, two: Any, where: str = "") -> str:
    """The first place where a value and what was read back differ."""
    for field in fields(one) if is_dataclass(one) and type(one) is type(two) else ():
        first, second = getattr(one, field.name), getattr(two, field.name)
        if first != second:
            return _difference(first, second, f"{where}.{field.name}" if where else field.name)
    return f"{where or 'The experiment'} is {one!r}, but its text gives back {two!r}"


def loads(text: str) -> Experiment:
    """The experiment of a saved TOML text; modules that it names are imported first."""
    return _decoded(tomllib.loads(text))


def read_config(path: Path) -> Experiment | dict[str, Any]:
    """A TOML file: the experiment if it is the saved form, else arguments of `resolve`."""
    refuse_special(path)
    if not path.is_file():
        raise TacitError(f"No file at {str(path)!r}; check the path after --config.")
    try:
        with reading(path, "check the path after --config"):
            content = path.read_bytes()
        plain = tomllib.loads(content.decode("utf-8"))
        if not isinstance(plain.get("method"), dict):
            refused = _recalled(plain, f" in {str(path)!r}")
            if refused:
                raise _needed(refused)
            return _short(plain, path)
        experiment = _decoded(plain, f" in {str(path)!r}")
    except (ValueError, RecursionError) as error:  # no UTF-8, thousands of digits or brackets
        raise TacitError(f"{str(path)!r} is not TOML: {said(error)}.") from error
    experiment.check()
    return experiment


def _short(plain: dict[str, Any], path: Path) -> dict[str, Any]:
    for key in plain:
        if key not in SHORT_KEYS:
            raise TacitError(
                f"Unknown key {shown(key)} in {str(path)!r}; {nearest(key, SHORT_KEYS)}"
            )
    arguments = {
        key: check_value(value, SHORT_KEYS[key], f"{key} in {str(path)!r}")
        for key, value in plain.items()
    }
    sets = arguments.pop("set", {})
    if sets:
        arguments["sets"] = [f"{key}={_scalar(value)}" for key, value in _flatten(sets, ())]
    if "plugins" in arguments:
        arguments["plugins"] = [_plugin(entry, path) for entry in arguments["plugins"]]
    return arguments


def _flatten(table: dict[str, Any], path: tuple[str, ...]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            pairs += _flatten(value, (*path, key))
        else:
            pairs.append((".".join((*path, key)), value))
    return pairs


def _plugin(entry: Any, path: Path) -> str:
    """A plug-in as text: "clip", "clip:bound=1", or {name = "clip", bound = 1}."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict) and "name" in entry:
        arguments = ",".join(f"{key}={value}" for key, value in entry.items() if key != "name")
        return f"{entry['name']}:{arguments}" if arguments else str(entry["name"])
    raise TacitError(f'A plug-in in {str(path)!r} must be a name or {{name = "..", key = value}}.')
