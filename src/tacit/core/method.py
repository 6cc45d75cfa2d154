"""A method is an expression over parts: one frozen value with a slot for each kind of part."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.channel.dense import Dense
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
from tacit.items.id_only import IdOnly
from tacit.local.joint import Joint
from tacit.objectives.bce import BinaryCrossEntropy
from tacit.server.mean import Mean
from tacit.sync.replace import Replace


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
