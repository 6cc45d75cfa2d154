"""Plug-ins: functions from a method to a method, by name, for `--with NAME:key=value,..`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tacit.channel.clip import Clip
from tacit.channel.gaussian import Gaussian
from tacit.channel.laplace import Laplace
from tacit.core.method import Method
from tacit.core.parts import Transform
from tacit.errors import TacitError, nearest
from tacit.experiment.codec import check_leaf


def through(method: Method, link: Transform) -> Method:
    """The method with one more link at the end of its channel.

    >>> from tacit.methods import fedmf
    >>> through(fedmf(), Clip(bound=1.0)).channel[-1]
    Clip(bound=1.0, order=2)
    """
    return replace(method, channel=(*method.channel, link))


@dataclass(frozen=True)
class Plugin:
    """A plug-in: what it builds from its arguments, and the protocol of its paper if it has one."""

    apply: Callable[[Method, Any], Method]
    part: type
    summary: str
    protocol: str | None = None


PLUGINS: dict[str, Plugin] = {
    "clip": Plugin(through, Clip, "bound the norm of each upload"),
    "gaussian": Plugin(through, Gaussian, "Gaussian noise on uploads (needs clip before it)"),
    "laplace": Plugin(through, Laplace, "Laplace noise on uploads, as in PFedRec's variant"),
}


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


def apply_plugin(method: Method, spelling: str) -> Method:
    """One plug-in applied as it is spelled on the command line.

    >>> from tacit.methods import fedmf
    >>> apply_plugin(fedmf(), "laplace:scale=0.2").channel[-1]
    Laplace(scale=0.2)
    """
    name, arguments = parse(spelling)
    if name not in PLUGINS:
        raise TacitError(f"Unknown plug-in {name!r}; {nearest(name, PLUGINS)}")
    plugin = PLUGINS[name]
    known = inspect.get_annotations(plugin.part, eval_str=True)
    values: dict[str, Any] = {}
    for key, text in arguments.items():
        if key not in known:
            raise TacitError(f"Plug-in {name!r} has no {key!r}; {nearest(key, known)}")
        values[key] = check_leaf(_number(text), known[key], f"{name}.{key}")
    return plugin.apply(method, plugin.part(**values))


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
