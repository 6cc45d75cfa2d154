"""Plug-ins: functions from a method to a method, by name, for `--with NAME:key=value,..`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit.core.method import Method
from tacit.errors import TacitError, nearest
from tacit.experiment.codec import check_leaf
from tacit.plugins import cold
from tacit.plugins.channel import clip, gaussian, laplace
from tacit.plugins.dual_personalised import dual_personalised
from tacit.plugins.fedrkg import fedrkg, global_table, knowledge_guidance, personal_table
from tacit.plugins.fusion import fedmr, fedvlr, id_only_control


@dataclass(frozen=True)
class Plugin:
    """A plug-in: a function from a method and arguments to a method, and the protocol of its paper
    if it has one, with the rounds that the paper trains."""

    apply: Callable[..., Method]
    summary: str
    protocol: str | None = None
    rounds: int | None = None


DUAL_PERSONALISED = Plugin(
    dual_personalised, "private scorer, privately tuned item table (PFedRec's two rules)", "pfedrec"
)

PLUGINS: dict[str, Plugin] = {
    "clip": Plugin(clip, "bound the norm of each upload"),
    "gaussian": Plugin(gaussian, "Gaussian noise on uploads (needs clip before it)"),
    "laplace": Plugin(laplace, "Laplace noise on uploads, as in PFedRec's variant"),
    "dual_personalised": DUAL_PERSONALISED,
    "dualper": DUAL_PERSONALISED,
    "fedrkg": Plugin(
        fedrkg, "personal table, guided by the mean of all through a learned gate", "fedrkg", 1000
    ),
    "fedrkg_without_ag": Plugin(
        knowledge_guidance, "FedRKG without the gate: fixed guidance", "fedrkg", 1000
    ),
    "fedmr": Plugin(
        fedmr, "items fused from id, text and image; a private router mixes views", "fedmr"
    ),
    "fedvlr": Plugin(fedvlr, "the same with normalised views that the server broadcasts", "fedmr"),
    "id_only": Plugin(
        id_only_control, "an id table as wide as fusion's, projected, no content", "fedmr"
    ),
    "mdifffr": Plugin(
        cold.mdifffr, "rows for untouched items from a diffusion that content guides", "mdifffr"
    ),
    "light_mdifffr": Plugin(
        cold.light_mdifffr, "MDiffFR that learns in every second round", "mdifffr"
    ),
    "ifedrec": Plugin(
        cold.ifedrec, "rows from a map of content, to which clients are pulled", "mdifffr"
    ),
    "ridge": Plugin(cold.ridge, "rows for untouched items by linear regression on content"),
    "nearest": Plugin(cold.nearest, "rows for untouched items: the mean of their neighbours'"),
    "random_rows": Plugin(cold.random_rows, "control: rows that know nothing of the item"),
    "gie": Plugin(global_table, "FedRKG's ablation: the global table replaces all", "fedrkg", 1000),
    "pie": Plugin(personal_table, "FedRKG's ablation: tables never meet", "fedrkg", 1000),
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
    parameters = list(inspect.signature(plugin.apply, eval_str=True).parameters.values())[1:]
    known = {parameter.name: parameter.annotation for parameter in parameters}
    values: dict[str, Any] = {}
    for key, text in arguments.items():
        if key not in known:
            ending = nearest(key, known) if known else "it takes none."
            raise TacitError(f"Plug-in {name!r} has no {key!r}; {ending}")
        values[key] = check_leaf(_number(text), known[key], f"{name}.{key}")
    return plugin.apply(method, **values)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
