"""A method is an expression over parts: one frozen value with a slot for each kind of part."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tacit.core.central import CentralMethod, TrainedCentralMethod
from tacit.core.custom import CustomMethod
from tacit.core.parts import (
    Backbone,
    ColdStart,
    ItemEncoder,
    Local,
    Objective,
    Server,
    Sync,
    Transform,
)
from tacit.core.recency import Recency
from tacit.core.registry import default, register
from tacit.data.sampling import Sampling
from tacit.errors import TacitError, shown
from tacit.privacy.guarantee import PrivacyRequest

if TYPE_CHECKING:
    from tacit.core.compose import ComposedAlgorithm
    from tacit.core.types import Task


# The kind of part that each slot takes; the channel takes several, and the last ones may be empty.
SLOTS: dict[str, type] = {
    "backbone": Backbone,
    "items": ItemEncoder,
    "sync": Sync,
    "local": Local,
    "objective": Objective,
    "sampling": Sampling,
    "channel": Transform,
    "server": Server,
    "cold": ColdStart,
    "recency": Recency,
    "privacy": PrivacyRequest,
}
MAY_BE_EMPTY = ("cold", "recency", "privacy")


@register("federated")
@dataclass(frozen=True)
class Method:
    """A federated method: parts in slots. `dataclasses.replace` makes a variant.

    A slot that is left out holds its default, which the registry finds by name.

    >>> from tacit.methods import pfedrec
    >>> pfedrec(dim=8).backbone
    LinearHead(dim=8, item_scale=1.0, user_vector=False)
    """

    backbone: Backbone
    items: ItemEncoder = field(default_factory=partial(default, "items"))
    sync: Sync = field(default_factory=partial(default, "sync"))
    local: Local = field(default_factory=partial(default, "local"))
    objective: Objective = field(default_factory=partial(default, "objective"))
    sampling: Sampling = Sampling()
    channel: tuple[Transform, ...] = field(default_factory=partial(default, "channel"))
    server: Server = field(default_factory=partial(default, "server"))
    cold: ColdStart | None = None  # rows for items that nobody has touched
    recency: Recency | None = None  # how much less positives count the longer ago they were
    privacy: PrivacyRequest | None = None  # the guarantee that is asked for

    def __post_init__(self) -> None:
        for slot, kind in SLOTS.items():
            value = getattr(self, slot)
            if slot == "channel" and not isinstance(value, tuple):
                raise TacitError(f"method.channel is {shown(value)}; it must be a tuple of parts.")
            for one in value if slot == "channel" else (value,):
                if not isinstance(one, kind) and not (slot in MAY_BE_EMPTY and one is None):
                    raise TacitError(
                        f"method.{slot} is {shown(one)}; it must be a {kind.__name__}: let its "
                        f"class subclass {kind.__module__}.{kind.__name__}."
                    )

    @property
    def composed(self) -> Method:
        """The method itself: it is an expression over parts."""
        return self

    def algorithm(self, task: Task) -> ComposedAlgorithm:
        """The method on a catalogue of known size; parts that do not fit are refused."""
        from tacit.core.compose import compose

        return compose(self, task)


# What an experiment may run: each of them has `algorithm(task)` and `composed`.
AnyMethod = Method | CustomMethod | CentralMethod | TrainedCentralMethod


def require_method(what: str, made: Any) -> Any:
    """Refuse what a function of a method or of a plug-in returned, where it is no method."""
    if not hasattr(made, "algorithm") or not hasattr(made, "composed"):
        raise TacitError(f"{what} returned {shown(made)}; it must return a method.")
    return made
