"""FedMF: federated matrix factorisation, as the baseline of the personalised papers.

A private vector per user, a shared item table; one joint step per batch, a plain mean on the
server, ranked with the global table. The reading follows PFedRec's comparison (its code was not
released); the item rate carries the field's η·I scale, since at the plain rate items learn nothing.
"""

from __future__ import annotations

from tacit.backbones.dot import DotProduct
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry


def fedmf(dim: int = 32, rate: float = 0.1, per_item: float = 80.0) -> Method:
    """FedMF as parts.

    >>> fedmf(dim=8).local.items.per_item
    80.0
    """
    return Method(DotProduct(dim), local=Joint(Sgd(rate), items=Sgd(rate, per_item=per_item)))


METHODS["fedmf"] = Entry(
    build=fedmf,
    summary="private user vector, shared item table, dot product",
    rounds=100,
    protocol="pfedrec",
    presets={"paper": {}, "tuned": {"rate": 0.1, "per_item": 80.0}},  # docs/results/tuning.md
)
