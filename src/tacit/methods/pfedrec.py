"""PFedRec: dual personalisation (Zhang et al., IJCAI 2023).

Each user has a private scorer and a privately tuned copy of the item table. Per batch: a step of
the scorer, then, with the new scorer, a step of the item rows (their algorithm 1; eq. 8 is the loss
over interacted and sampled items). The paper fixes width 32, batch 256, one local epoch, 4
negatives, 100 rounds. Its released code adds the item rate η·I with η = 80 and takes the loss on
probabilities; `released` is that quirk by name.

`fusion` is the client that FedMR and FedVLR give it: width 64, 5 local epochs over batches of 2048,
one negative per positive drawn anew in each epoch, item rate I. It is meant for `--with fedmr` and
`--with fedvlr`; without it these run on the paper's own client. Either way the tuned copy is lost
with fused items, and the run's notes say so.
"""

from __future__ import annotations

from typing import Literal

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.data.sampling import Sampling
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.parts.backbones import LinearHead
from tacit.parts.local import Alternate
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Replace


def pfedrec(
    dim: int = 32,
    rate: float = 0.1,
    per_item: float = 80.0,
    loss_on: Literal["logits", "probabilities"] = "logits",
    epochs: int = 1,
    batch: int = 256,
    negatives: int = 4,
    redraw: Literal["round", "epoch"] = "round",
) -> Method:
    """PFedRec as parts.

    >>> pfedrec().sync
    Replace(keep=True)
    """
    return Method(
        LinearHead(dim),
        sync=Replace(keep=True),
        local=Alternate(Sgd(rate), items=Sgd(rate, per_item=per_item), epochs=epochs, batch=batch),
        objective=BinaryCrossEntropy(loss_on),
        sampling=Sampling(negatives, redraw),
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
        "fusion": {
            "dim": 64,
            "per_item": 1.0,
            "epochs": 5,
            "batch": 2048,
            "negatives": 1,
            "redraw": "epoch",
        },
    },
    chosen={"tuned": Chosen(("ml-100k",))},
)
