"""The names of parts: what TOML calls them. A part registers where it is defined. Which built-in
module defines which names, of parts and of methods, is listed here, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, overload

from tacit.errors import TacitError
from tacit.names import Names

PartClass = TypeVar("PartClass", bound=type)

# The part of each slot that a method has unless it says another.
DEFAULTS = {
    "items": "id_only",
    "sync": "replace",
    "local": "joint",
    "objective": "bce",
    "channel": "dense",
    "server": "mean",
}


class Methods(NamedTuple):
    """What a module registers: classes, which are parts as well, and expressions over parts."""

    classes: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()


# Which module registers which methods. `tacit list` shows them in this order: federated papers,
# then those that read content, then controls and central baselines; others come after them. A test
# holds both lists to what the modules really register.
METHOD_MODULES = {
    "tacit.methods.factorisation": Methods(
        expressions=("fedmf", "fcf", "fedavg", "fedncf", "fedneumf", "fedrecon")
    ),
    "tacit.methods.pfedrec": Methods(expressions=("pfedrec",)),
    "tacit.methods.personal_tables": Methods(expressions=("fedrap", "gpfedrec", "cofedrec")),
    "tacit.methods.fcf_als": Methods(("fcf_als",)),
    "tacit.methods.dpals": Methods(("dpals",)),
    "tacit.methods.feddae": Methods(("feddae",)),
    "tacit.methods.metamf": Methods(("metamf",)),
    "tacit.methods.fedpergnn": Methods(("fedpergnn",)),
    "tacit.methods.content": Methods(expressions=("cs_fcf", "cs_fedncf", "fedvbpr")),
    "tacit.methods.cold_start": Methods(
        expressions=("ipfedrec", "ifedncf", "mdifffr", "light_mdifffr")
    ),
    "tacit.methods.controls": Methods(
        ("popularity", "fedpop", "random", "unseen_first", "mean_profile"), ("local_only",)
    ),
    "tacit.methods.closed_forms": Methods(("ease", "pure_svd", "fedease", "fedspectral")),
    "tacit.methods.fedmix": Methods(("fedmix",)),
    "tacit.methods.fednext": Methods(("fednext",)),
    "tacit.methods.central_trained": Methods(("mf", "ncf", "neumf")),
    "tacit.methods.pairwise_references": Methods(("bprmf", "lightgcn")),
    "tacit.methods.ials": Methods(("ials",)),
    "tacit.methods.linear_references": Methods(("edlae", "slim", "fedslim")),
    "tacit.methods.heater": Methods(("heater",)),
    "tacit.methods.gar": Methods(("gar",)),
    "tacit.methods.aldi": Methods(("aldi",)),
    "tacit.methods.cs_diffrec": Methods(("cs_diffrec",)),
    "tacit.methods.vbpr": Methods(("vbpr",)),
    "tacit.methods.bm3": Methods(("bm3",)),
    "tacit.methods.mgcn": Methods(("mgcn",)),
    "tacit.methods.pgl": Methods(("pgl",)),
    "tacit.methods.order_references": Methods(("markov", "slist")),
    "tacit.methods.sequence_models": Methods(("gru4rec", "sasrec")),
}

# Which module registers which parts, beside the classes of methods.
PART_MODULES = {
    "tacit.core.method": ("federated",),
    "tacit.core.recency": ("recency",),
    **{module: names.classes for module, names in METHOD_MODULES.items() if names.classes},
    "tacit.methods.private_pairs": ("private_pairs",),
    "tacit.methods.private_spectrum": ("private_spectrum",),
    "tacit.parts.backbones": ("dot", "linear_head", "shared_mlp", "mlp_head", "neural_mf"),
    "tacit.parts.items": ("id_only", "appended"),
    "tacit.parts.mixture": ("mixture",),
    "tacit.parts.views": (
        "sum_view",
        "perceptron_view",
        "gate_view",
        "true_gate_view",
        "attention_view",
        "single_view",
    ),
    "tacit.parts.sync": ("replace", "isolated", "additive", "proximal", "anchored"),
    "tacit.parts.guidance": ("guidance",),
    "tacit.parts.contrast": ("group_kept",),
    "tacit.parts.local": ("joint", "alternate", "reconstruct", "held"),
    "tacit.core.optim": ("sgd", "momentum", "adam"),
    "tacit.parts.objectives": ("bce", "pairwise"),
    "tacit.parts.channel": (
        "dense",
        "clip",
        "quantile_clip",
        "gaussian",
        "gaussian_sum",
        "laplace",
    ),
    "tacit.parts.compression": ("quantise", "top_k", "random_projection"),
    "tacit.parts.server": ("mean", "server_steps", "tables_beside"),
    "tacit.parts.graph": ("graph_mean",),
    "tacit.parts.clusters": ("cluster_mean",),
    "tacit.parts.cold.diffusion": ("diffusion", "corrected"),
    "tacit.parts.cold.mapping": ("mapping",),
    "tacit.parts.cold.simple": ("ridge", "nearest", "random_rows", "no_row"),
}


def _origin(part: type) -> tuple[str, str]:
    return part.__module__, part.__qualname__


def _accept(name: str, part: Any) -> type:
    if not isinstance(part, type) or not is_dataclass(part):
        raise TacitError(
            f"{getattr(part, '__name__', part)!r} is no dataclass, so its settings cannot be "
            "written down; register a class with @dataclass(frozen=True)."
        )
    taken = part_name(part)
    if taken not in (None, name) and name not in PARTS:
        raise TacitError(
            f"{part.__qualname__} has the name {taken!r} already; use that one, or register a "
            "class of its own."
        )
    return part


PARTS: Names[type] = Names("part", "tacit.parts", PART_MODULES, _accept, _origin)


@overload
def register(name: str) -> Callable[[PartClass], PartClass]: ...
@overload
def register(name: str, part: PartClass) -> PartClass: ...
def register(name: str, part: Any = None) -> Any:
    """Give a part a name, so that a run with it can be written down and opened again.

    Write it above the class, or call it with the class. For a part of your own, do so in every
    program that trains or opens such runs; `--import` brings it to the command line. A name or a
    class that is taken is refused; the same definition may be registered again, as a notebook does
    when a cell is run twice.

    >>> from dataclasses import dataclass
    >>> from tacit.parts.objectives import BinaryCrossEntropy
    >>> @register("documented_loss")
    ... @dataclass(frozen=True)
    ... class DocumentedLoss(BinaryCrossEntropy):
    ...     focus: float = 2.0
    >>> part("documented_loss").__name__, part_name(DocumentedLoss)
    ('DocumentedLoss', 'documented_loss')
    >>> register("bce", DocumentedLoss)
    Traceback (most recent call last):
    tacit.errors.TacitError: A part named 'bce' is there already: BinaryCrossEntropy of \
tacit.parts.objectives; choose another name.
    >>> del PARTS["documented_loss"]
    """
    if part is None:
        return lambda defined: register(name, defined)
    PARTS[name] = part
    return part


def part(name: str) -> type:
    """The class of that name.

    >>> part("replace").__name__
    'Replace'
    """
    if name not in PARTS:
        raise PARTS.unknown(name)
    return PARTS[name]


def part_name(part: type) -> str | None:
    """The name of a class; None where it has none.

    >>> from tacit.parts.sync import Replace
    >>> part_name(Replace), part_name(int)
    ('replace', None)
    """
    return next((name for name, known in PARTS.loaded().items() if known is part), None)


@cache
def default(slot: str) -> Any:
    """The part that a slot of a method has unless it is given another.

    >>> default("sync"), default("channel")
    (Replace(keep=False), (Dense(),))
    """
    value = part(DEFAULTS[slot])()
    return (value,) if slot == "channel" else value


def registration(part: type) -> str:
    """The line that registers a class.

    >>> registration(part("mean"))
    'from tacit import register; register("mean", Mean)'
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part.__name__).lower()
    return f'from tacit import register; register("{words}", {part.__name__})'
