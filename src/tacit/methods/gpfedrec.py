"""GPFedRec: a graph of users guides each personal table (Zhang et al., WWW 2024).

User vector and perceptron are private. A round begins with the mean table; while a client trains,
its table is pulled to the mean of its neighbours' tables of the round before. It ranks with its own
table. The released code calls 1 − cosine a similarity, so that it links the users who are least
alike; `released` is that by name. There the user vector has a rate of its own (7.9 beside .1); here
it moves at the perceptron's.

Item rate: the paper's η is 80. With the exact loss that diverges on MovieLens-100K within twenty
rounds (a loss on probabilities, whose slope dies where it saturates, hides it), so that η is 8 here
and 80 in `released`. The pull must not overshoot either: 2 · strength · rate · η / D below 2.
"""

from __future__ import annotations

from typing import Literal

from tacit.backbones.mlp import SharedMlp
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry
from tacit.objectives.bce import BinaryCrossEntropy
from tacit.server.graph import GraphMean
from tacit.sync.proximal import Proximal


def gpfedrec(
    dim: int = 32,
    rate: float = 0.1,
    per_item: float = 8.0,
    strength: float = 1.0,
    threshold: float = 1.0,
    similarity: Literal["cosine", "distance"] = "cosine",
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """GPFedRec as parts.

    >>> gpfedrec().server
    GraphMean(threshold=1.0, similarity='cosine', neighbours=None, layers=1)
    """
    return Method(
        SharedMlp(dim, scorer="private"),
        sync=Proximal(strength),
        local=Joint(Sgd(rate), items=Sgd(rate, per_item=per_item)),
        objective=BinaryCrossEntropy(loss_on),
        server=GraphMean(threshold, similarity),
    )


METHODS["gpfedrec"] = Entry(
    build=gpfedrec,
    summary="personal item tables, guided by a graph of users",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"per_item": 80.0, "similarity": "distance", "loss_on": "probabilities"},
    },
)
