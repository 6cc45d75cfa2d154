"""A method is an expression over parts: one frozen value with a slot for each kind of part."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.core.cold import ColdStart
from tacit.core.parts import (
    Backbone,
    ItemEncoder,
    Local,
    Objective,
    ServerRule,
    Sync,
    TableRule,
    Transform,
)
from tacit.data.sampling import Sampling
from tacit.parts.channel import Dense
from tacit.parts.items import IdOnly
from tacit.parts.local import Joint
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.server import Mean
from tacit.parts.sync import Replace


@dataclass(frozen=True)
class Method:
    """A federated method: parts in slots. `dataclasses.replace` makes a variant.

    >>> from tacit.methods import pfedrec
    >>> pfedrec(dim=8).backbone
    LinearHead(dim=8, item_scale=1.0, user_vector=False)
    """

    backbone: Backbone
    items: ItemEncoder = IdOnly()
    sync: Sync = Replace()
    local: Local = Joint()
    objective: Objective = BinaryCrossEntropy()
    sampling: Sampling = Sampling()
    channel: tuple[Transform, ...] = (Dense(),)
    server: ServerRule | TableRule = Mean()
    cold: ColdStart | None = None  # rows for items that nobody has touched
