"""FedNCF: neural collaborative filtering; the user vector is private, everything else is averaged.

The tower is 64-32-16-8-1 at width 32; `layers=` gives the towers of other papers (64-32-1 is
`layers=(32, 1)`). No paper that uses it as a baseline prints its rates, so the preset `paper` holds
ours: about nine settings of rate and initial law were tried by hand on ML-100K, with test values in
sight, before these were fixed. That is more search than fedmf and pfedrec had; `tuned` is the
setting that an equal search on validation alone found (`make tune`).
"""

from __future__ import annotations

from tacit.backbones.mlp import SharedMlp
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry


def fedncf(
    dim: int = 32,
    layers: tuple[int, ...] = (32, 16, 8, 1),
    rate: float = 0.5,
    per_item: float = 4.0,
) -> Method:
    """FedNCF as parts.

    >>> fedncf(layers=(32, 1)).backbone.layers
    (32, 1)
    """
    return Method(
        SharedMlp(dim, layers), local=Joint(Sgd(rate), items=Sgd(rate, per_item=per_item))
    )


METHODS["fedncf"] = Entry(
    build=fedncf,
    summary="private user vector, shared item table and shared perceptron",
    rounds=100,
    protocol="pfedrec",
    presets={"paper": {}, "tuned": {"rate": 1.0, "per_item": 1.0}},  # docs/results/tuning.md
)
