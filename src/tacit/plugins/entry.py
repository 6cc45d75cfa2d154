"""Plug-ins by name: what the list says of each, and how `--with NAME:key=value,..` applies them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tacit.core.codec import check_value
from tacit.core.fit import CompositionError, LeaveOut
from tacit.core.method import AnyMethod, require_method
from tacit.core.registry import part_name
from tacit.errors import TacitError, nearest, outcome_of, shown
from tacit.names import Names

# Which file here registers which plug-ins; `tacit list` shows them in this order, others after
# them.
BUILT_IN = {
    "tacit.plugins.channel": ("clip", "gaussian", "laplace", "quantise", "top_k", "project"),
    "tacit.plugins.personal": ("dual_personalised", "dualper"),
    "tacit.plugins.fedrkg": ("fedrkg", "fedrkg_without_ag", "gie", "pie"),
    "tacit.plugins.fusion": ("fedmr", "fedvlr", "id_only"),
    "tacit.plugins.cold": (
        "mdifffr",
        "light_mdifffr",
        "ifedrec",
        "ridge",
        "nearest",
        "random_rows",
    ),
    "tacit.plugins.recency": ("recency",),
    "tacit.plugins.private": ("private",),
}


@dataclass(frozen=True)
class Promise:
    """What a plug-in brings: in words, and how to see in a method that it is still there."""

    text: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Plugin:
    """A plug-in: a function from a method and arguments to a method, a line for the list, what it
    promises, and the protocol of its paper if it has one, with the rounds that the paper trains.

    With `any_method` it is also asked of methods that are no expression over parts, and refuses in
    a sentence those that it cannot change."""

    apply: Callable[..., Any]
    summary: str
    protocol: str | None = None
    rounds: int | None = None
    promise: Promise | None = None
    any_method: bool = False


def _accept(name: str, plugin: Any) -> Plugin:
    if not isinstance(plugin, Plugin):
        raise TacitError(
            f"The plug-in {name!r} is {shown(plugin)}; give a Plugin: tacit.Plugin(apply=.., "
            "summary=..)."
        )
    return plugin


def _origin(plugin: Plugin) -> tuple[str, str] | None:
    apply = plugin.apply
    module, name = getattr(apply, "__module__", None), getattr(apply, "__qualname__", None)
    return None if module is None or name is None else (module, name)


# All plug-ins by name; each file puts its own here, and so does a user's module.
PLUGINS: Names[Plugin] = Names("plug-in", "tacit.plugins", BUILT_IN, _accept, _origin)


def parse(spelling: str) -> tuple[str, dict[str, str]]:
    """Name and arguments of `NAME` or `NAME:key=value,key=value`.

    >>> parse("clip:bound=2")
    ('clip', {'bound': '2'})
    """
    name, _, rest = spelling.partition(":")
    arguments: dict[str, str] = {}
    for piece in filter(None, rest.split(",")):
        key, equals, value = piece.partition("=")
        if not equals:
            raise TacitError(
                f"Cannot read {piece!r} in the plug-in {spelling!r}; write "
                "NAME:key=value,key=value."
            )
        arguments[key.strip()] = value.strip()
    return name, arguments


def apply_plugin(method: AnyMethod, spelling: str) -> Any:
    """One plug-in applied as it is spelled on the command line.

    >>> from tacit.methods import fedmf
    >>> from tacit.plugins.entry import apply_plugin
    >>> apply_plugin(fedmf(), "laplace:scale=0.2").channel[-1]
    Laplace(scale=0.2)
    """
    name, arguments = parse(spelling)
    if name not in PLUGINS:
        raise PLUGINS.unknown(name)
    plugin = PLUGINS[name]
    known = _arguments(plugin.apply)
    values: dict[str, Any] = {}
    for key, text in arguments.items():
        if key not in known:
            ending = nearest(key, known) if known else "it takes none."
            raise TacitError(f"Plug-in {name!r} has no {key!r}; {ending}")
        values[key] = check_value(_number(text), known[key], f"{name}.{key}")
    what = f"The plug-in {name!r}"
    return require_method(what, outcome_of(what, plugin.apply, method, **values))


@cache
def _arguments(apply: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of a plug-in beside the method, by name, and the types that they must have."""
    parameters = list(inspect.signature(apply, eval_str=True).parameters.values())[1:]
    return {parameter.name: parameter.annotation for parameter in parameters}


def with_plugins(method: AnyMethod, spellings: Sequence[str], before: Sequence[str] = ()) -> Any:
    """All plug-ins in the order given, each of which keeps its promise to the end: one that another
    undoes is refused. `before` are those that the method has already.

    >>> from tacit.methods import fedmf
    >>> from tacit.plugins.entry import with_plugins
    >>> with_plugins(fedmf(), ["dual_personalised", "clip"]).sync
    Replace(keep=True)
    >>> with_plugins(fedmf(), ["dual_personalised", "fedmr"])
    Traceback (most recent call last):
    tacit.core.fit.CompositionError: dual_personalised brings a private scorer and a privately \
tuned copy of the item table, which fedmr takes away; drop plugins=['fedmr'], or drop \
plugins=['dual_personalised'].
    """
    names = [name for name in (parse(spelling)[0] for spelling in before) if name in PLUGINS]
    _require_parts(method, spellings)
    for spelling in spellings:
        method = apply_plugin(method, spelling)
        name = parse(spelling)[0]
        for earlier in names:
            promised = PLUGINS[earlier].promise
            if promised is not None and not promised.holds(method):
                raise CompositionError(
                    f"{earlier} brings {promised.text}, which {name} takes away",
                    LeaveOut((name,)),
                    LeaveOut((earlier,)),
                )
        names.append(name)
    return method


def _require_parts(method: AnyMethod, spellings: Sequence[str]) -> None:
    """Refuse what changes parts where there are none."""
    if method.composed is not None:
        return
    named = [parse(spelling)[0] for spelling in spellings]
    for_parts = [name for name in named if name in PLUGINS and not PLUGINS[name].any_method]
    if for_parts:
        title = part_name(type(method)) or type(method).__name__
        raise CompositionError(f"{title} has no parts to plug into", LeaveOut(tuple(for_parts)))


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
