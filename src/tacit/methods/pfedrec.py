"""PFedRec: dual personalisation (Zhang et al., IJCAI 2023).

Each user has a private scorer and a privately tuned copy of the item table. Per batch: a step of
the scorer, then, with the new scorer, a step of the item rows (their eq. 8 and algorithm 1). The
paper fixes width 32, batch 256, one local epoch, 4 negatives, 100 rounds. Its released code adds
the item rate η·I with η = 80 and takes the loss on probabilities; `released` is that quirk by name.
"""

from __future__ import annotations

from typing import Literal

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.methods.entry import METHODS, Entry
from tacit.parts.backbones import LinearHead
from tacit.parts.local import Alternate
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Replace


def pfedrec(
    dim: int = 32,
    rate: float = 0.1,
    per_item: float = 80.0,
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """PFedRec as parts.

    >>> pfedrec().sync
    Replace(keep=True)
    """
    return Method(
        LinearHead(dim),
        sync=Replace(keep=True),
        local=Alternate(Sgd(rate), items=Sgd(rate, per_item=per_item)),
        objective=BinaryCrossEntropy(loss_on),
    )


METHODS["pfedrec"] = Entry(
    build=pfedrec,
    summary="private linear scorer, privately tuned copy of the item table",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"loss_on": "probabilities"},
        "tuned": {"rate": 0.1, "per_item": 80.0},  # docs/results/tuning.md
    },
)
