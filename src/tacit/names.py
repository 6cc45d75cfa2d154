"""Names of parts, methods, plug-ins and datasets: built in, installed, or imported on request.

A name is found in three places. What is built in is listed by module, and its module is imported
when the name is first asked for. What other packages install is found by their entry points, in the
groups below. What `--import` names is imported at once. Importing is all that an extension needs:
its modules register what they define.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from tacit.errors import TacitError, nearest

Value = TypeVar("Value")

# The groups of entry points, and the module that holds the names of each.
GROUPS = {
    "tacit.parts": "tacit.core.registry",
    "tacit.methods": "tacit.methods.entry",
    "tacit.plugins": "tacit.plugins.entry",
    "tacit.datasets": "tacit.data.sources",
}


@dataclass(frozen=True)
class Extension:
    """An installed extension, and why it could not be loaded; empty where it was.

    >>> Extension("tacit.methods", "mine", "my_package.methods:MINE").label
    "the entry point 'mine' of tacit.methods (my_package.methods:MINE)"
    """

    group: str
    name: str
    value: str  # module, or module:object
    problem: str = ""

    @property
    def label(self) -> str:
        return f"the entry point {self.name!r} of {self.group} ({self.value})"


@dataclass
class _State:
    """What was loaded in this process."""

    tables: dict[str, Names[Any]]  # by group
    installed: list[Extension] | None = None  # None: nobody has looked yet
    importing: str | None = None  # what `--import` is at work on


_STATE = _State({})


class Names(MutableMapping[str, Value], Generic[Value]):
    """The names of one kind. Reading a name imports the module that defines it.

    `built_in` has the names by the module that registers them; they come first and in this order,
    then those from outside in the order of their registration. `accept` turns what is registered
    into a value, or refuses it; `origin` says where a value was defined. `values` are built in too,
    and there from the start.

    >>> colours = Names[int]("colour", "doctest.colours", {"tacit.errors": ["red"]})
    >>> colours["green"] = 3
    >>> "red" in colours, "blue" in colours, list(colours)
    (True, False, ['red', 'green'])
    >>> colours["green"] = 4
    Traceback (most recent call last):
    tacit.errors.TacitError: A colour named 'green' is there already; choose another name.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, Sequence[str]],
        accept: Callable[[str, Any], Value] | None = None,
        origin: Callable[[Value], tuple[str, str] | None] = lambda value: None,
        values: Mapping[str, Value] | None = None,
    ) -> None:
        self.kind = kind
        self._values: dict[str, Value] = dict(values or {})
        self.built_in = {name: module for module, names in built_in.items() for name in names}
        self.built_in |= dict.fromkeys(self._values, "")
        self._accept, self._origin = accept, origin
        self._imports: dict[str, str] = {}  # name -> the `--import` that brought it
        if group in GROUPS:
            _STATE.tables[group] = self

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            if name in self.built_in:
                importlib.import_module(self.built_in[name])
            else:
                installed()
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        if name not in self.built_in and name not in self._values:
            installed()
        return name in self.built_in or name in self._values

    def __iter__(self) -> Iterator[str]:
        installed()
        return iter(dict.fromkeys([*self.built_in, *self._values]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: Any) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            raise TacitError(
                f"{name!r} is no name for a {self.kind}; use letters, digits, '_', '-' and '.'."
            )
        found = value if self._accept is None else self._accept(name, value)
        origin = self._origin(found)
        own = origin is not None and origin[0] == self.built_in.get(name)
        before = self._values.get(name)
        if before is None and name in self.built_in and not own:
            before = self[name]
        if before is not None and before != found:
            there = self._origin(before)
            if there is None or there != origin:
                where = "" if there is None else f": {there[1]} of {there[0]}"
                raise TacitError(
                    f"A {self.kind} named {name!r} is there already{where}; choose another name."
                )
        self._values[name] = found
        if _STATE.importing is not None and name not in self.built_in:
            self._imports[name] = _STATE.importing

    def loaded(self) -> Mapping[str, Value]:
        """The names whose values are here already; nothing is imported."""
        return self._values

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._imports.pop(name, None)

    def __repr__(self) -> str:
        return f"<{len(self)} names of {self.kind}s: {', '.join(self)}>"

    def from_import(self, name: str) -> str | None:
        """The `--import` that a name came with; None for one that is found without."""
        return self._imports.get(name)

    def _came_with(self, module: str) -> None:
        """Remember that what a module has registered came with the import that is at work."""
        for name, value in self._values.items():
            origin = self._origin(value)
            own = origin is not None and f"{origin[0]}.".startswith(f"{module}.")
            if own and name not in self.built_in and _STATE.importing is not None:
                self._imports.setdefault(name, _STATE.importing)

    def unknown(self, name: str) -> TacitError:
        """What to say of a name that nobody has.

        >>> str(Names("colour", "doctest.colours", {"tacit.errors": ["red"]}).unknown("rad"))
        "Unknown colour 'rad'; did you mean 'red'? Known: red."
        """
        return TacitError(f"Unknown {self.kind} {name!r}; {nearest(name, self)}{not_loaded()}")


@contextmanager
def restored() -> Iterator[None]:
    """Inside, names may be registered; afterwards all are as before.

    >>> from tacit.core.registry import PARTS, part
    >>> with restored():
    ...     PARTS["mean_again"] = type("MeanAgain", (part("mean"),), {})
    >>> "mean_again" in PARTS
    False
    """
    before = _snapshot()
    try:
        yield
    finally:
        _restore(before)


def _snapshot() -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    return {
        group: (dict(table._values), dict(table._imports)) for group, table in _STATE.tables.items()
    }


def _restore(before: dict[str, tuple[dict[str, Any], dict[str, str]]]) -> None:
    for group, table in _STATE.tables.items():
        # what is built in stays: its module is imported once only
        own = {name: v for name, v in table._values.items() if name in table.built_in}
        values, imports = before.get(group, ({}, {}))
        table._values, table._imports = {**values, **own}, imports


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """Import inside; if that fails, nothing stays of it: neither names nor the modules that define
    them, so that a second try after mending registers all of them again."""
    before, modules = _snapshot(), set(sys.modules)
    try:
        yield
    except BaseException:
        defined = {
            origin[0]
            for table in _STATE.tables.values()
            for name, value in table._values.items()
            if name not in table.built_in and (origin := table._origin(value)) is not None
        }
        for module in defined - modules:
            sys.modules.pop(module, None)
        _restore(before)
        raise


# Extensions that are installed: found by their entry points, loaded once, all together.


def installed() -> list[Extension]:
    """The extensions that other packages install, loaded when first asked for; a broken one says
    why, and leaves nothing behind.

    >>> [one.label for one in installed() if one.problem]
    []
    """
    if _STATE.installed is None:
        _STATE.installed = []  # also for those who ask while extensions are loaded
        outer, _STATE.importing = _STATE.importing, None  # a user's module may be what asks
        for group in GROUPS:
            for point in sorted(entry_points(group=group), key=lambda point: point.name):
                _STATE.installed.append(_load(group, point))
        _STATE.importing = outer
    return _STATE.installed


def not_loaded() -> str:
    """The end of a message about an unknown name: it may be that of an extension that is broken.

    >>> not_loaded()
    ''
    """
    broken = [one for one in installed() if one.problem]
    return "".join(f" Not loaded: {one.label}: {one.problem}." for one in broken)


def _load(group: str, point: EntryPoint) -> Extension:
    problem = ""
    try:
        with _all_or_nothing():
            found = point.load()
            if point.attr:
                importlib.import_module(GROUPS[group])
                _STATE.tables[group][point.name] = found
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything
        problem = _reason(error)
    return Extension(group, point.name, point.value, problem)


def _reason(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"there is no module {error.name!r}"
    text = " ".join(str(error).split()).rstrip(".")
    return text if isinstance(error, TacitError) else f"{type(error).__name__}: {text}"


# Modules that somebody asks for: `--import`, and what a saved experiment says of them.


def is_path(spelling: str) -> bool:
    """Whether `--import` means a file and not the name of a module.

    >>> is_path("mine.py"), is_path("code/mine"), is_path("my_package.mine")
    (True, True, False)
    """
    return spelling.endswith(".py") or "/" in spelling or "\\" in spelling


def extend(spelling: str) -> ModuleType:
    """Import a module of your own, by name or by the path of a `.py` file, and remember that its
    names came with it: an experiment that uses one of them says so in its text.

    >>> extend("no.such.module")
    Traceback (most recent call last):
    tacit.errors.TacitError: Cannot import 'no.such.module': there is no module 'no'; install it, \
put its folder on PYTHONPATH, or give the path of a .py file.
    """
    outer, _STATE.importing = _STATE.importing, spelling
    try:
        with _all_or_nothing():
            if is_path(spelling):
                return _from_file(spelling)
            module = importlib.import_module(spelling)
            for table in _STATE.tables.values():
                table._came_with(module.__name__)  # it may have been imported before
            return module
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        remedy = "mend it, or leave out the import"
        if isinstance(error, ModuleNotFoundError):
            remedy = "install it, put its folder on PYTHONPATH, or give the path of a .py file"
        raise TacitError(f"Cannot import {spelling!r}: {_reason(error)}; {remedy}.") from error
    finally:
        _STATE.importing = outer


def recall(spellings: Sequence[str]) -> dict[str, str]:
    """Import what a saved experiment was made with; those that are not, with the reason.

    A file on disk must not run code that nobody asked for. So a path is never followed, and a
    module only where this Python finds it without looking into the current folder.

    >>> recall(["mine.py"])
    {'mine.py': 'a file is not run because a saved experiment names it'}
    """
    refused = {}
    for spelling in spellings:
        if is_path(spelling):
            refused[spelling] = "a file is not run because a saved experiment names it"
        elif spelling not in sys.modules and _in_current_folder(spelling):
            refused[spelling] = (
                "a module of the current folder is not run because a saved experiment names it"
            )
        else:
            try:
                extend(spelling)
            except TacitError as error:
                refused[spelling] = _reason(error.__cause__ or error)
    return refused


def _in_current_folder(module: str) -> bool:
    """Whether a module would come from the current folder, which is on the path of `python -m` and
    of notebooks; a folder that PYTHONPATH names was named by the user."""
    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin or ""]
    here = Path.cwd()
    named = [
        Path(one).resolve() for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one
    ]
    return here not in named and any(Path(place).resolve().parent == here for place in places)


def _from_file(spelling: str) -> ModuleType:
    """The module in a file, imported once; its name in the list of modules is its own."""
    path = Path(spelling).expanduser()
    if not path.is_file():
        raise TacitError("there is no such file; check the path.")
    whole = str(path.resolve())
    name = f"{path.stem}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, whole)
    if spec is None or spec.loader is None:
        raise TacitError("it is no Python file; give a file that ends with .py.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
