"""FedRAP: an item is the sum of a personal and a common row (Li, Long and Zhou, ICLR 2024).

A private linear scorer reads D_u[i] + C[i]; scorer and both tables take one step together, and the
server averages C. The loss keeps D_u and C apart and C sparse, with weights that grow with the
rounds. Rates, batch and decay are those of the released command for MovieLens-100K; its authors
warn that results hang on them. Not taken over from the code: a decay of .95 per batch within a
client's round, and stopping a client's epochs at a small change of its loss. Its weight decay here
acts on the rows that a client touches.

Under the clean pool these rates stay near chance on MovieLens-100K (one seed, 21 rounds): the term
−λ·(D − C)² has no lower bound, and rows grow to 1e4; without it (λ = 0) they stay bounded, and the
ranking is above chance but below popularity. At 1e-4 the scorers hardly move. The checkerboard is
learnt with a scorer rate of 1, an item rate of 20 without decay, 2 epochs and λ = .01.
"""

from __future__ import annotations

from typing import Literal

from tacit.backbones.head import LinearHead
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry
from tacit.objectives.bce import BinaryCrossEntropy
from tacit.sync.additive import Additive


def fedrap(
    dim: int = 32,
    rate: float = 1e-4,
    item_rate: float = 1e3,
    apart: float = 0.1,
    sparse: float = 1e-3,
    schedule: Literal["tanh", "fixed", "cumulative", "none"] = "tanh",
    weight_decay: float = 0.0,
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """FedRAP as parts.

    >>> fedrap().sync
    Additive(apart=0.1, sparse=0.001, schedule='tanh', norm='l1')
    """
    return Method(
        LinearHead(dim),
        sync=Additive(apart, sparse, schedule),
        local=Joint(
            Sgd(rate, decay=0.97, weight_decay=weight_decay),
            items=Sgd(item_rate, decay=0.97, weight_decay=weight_decay),
            epochs=10,
            batch=2048,
        ),
        objective=BinaryCrossEntropy(loss_on),
    )


METHODS["fedrap"] = Entry(
    build=fedrap,
    summary="personal plus common item table, private linear scorer",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"schedule": "fixed", "weight_decay": 1e-6, "loss_on": "probabilities"},
    },
)
