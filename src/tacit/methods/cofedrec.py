"""CoFedRec: co-clustering of items and users (He et al., 2024).

PFedRec's client with a table that stays, whose loss draws items of one cluster together. Each round
the server clusters the items of the mean table, and gives one group of alike users their mean table
in place of their own; everybody else keeps theirs. The contrast is quadratic in its items, so
here it runs over a sample of them, drawn anew each round, where the paper takes the whole catalogue
(`sample=None`, as `released` does). The released code used 60 item clusters for MovieLens-100K.
"""

from __future__ import annotations

from typing import Literal

from tacit.backbones.head import LinearHead
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.alternate import Alternate
from tacit.methods.entry import METHODS, Entry
from tacit.objectives.bce import BinaryCrossEntropy
from tacit.server.clusters import ClusterMean
from tacit.sync.contrast import GroupKept


def cofedrec(
    dim: int = 32,
    rate: float = 0.1,
    per_item: float = 80.0,
    strength: float = 0.005,
    clusters: int = 30,
    sample: int | None = 1024,
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """CoFedRec as parts.

    >>> cofedrec().server
    ClusterMean(clusters=30, sample=1024, iterations=20)
    """
    return Method(
        LinearHead(dim),
        sync=GroupKept(strength),
        local=Alternate(Sgd(rate), items=Sgd(rate, per_item=per_item), epochs=2),
        objective=BinaryCrossEntropy(loss_on),
        server=ClusterMean(clusters, sample),
    )


METHODS["cofedrec"] = Entry(
    build=cofedrec,
    summary="personal item tables, clusters of items, one group of users a round",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"sample": None, "loss_on": "probabilities"},
    },
)
