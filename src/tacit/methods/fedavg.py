"""FedAvg on the same model as FCF: item rows at the plain rate, clients weighted by their examples.

The weights |D_u| / Σ|D_v| sum to one over the participants. (The released code of the multimodal
papers does not divide by their sum, which rescales the table every round.)
"""

from __future__ import annotations

from tacit.backbones.head import LinearHead
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry
from tacit.server.mean import Mean


def fedavg(
    dim: int = 64, rate: float = 0.1, item_rate: float = 0.01, epochs: int = 5, batch: int = 2048
) -> Method:
    """FedAvg as parts.

    >>> fedavg().server
    Mean(weights='examples', cap=None)
    """
    return Method(
        LinearHead(dim),
        local=Joint(Sgd(rate), items=Sgd(item_rate), epochs=epochs, batch=batch),
        server=Mean("examples"),
    )


METHODS["fedavg"] = Entry(
    build=fedavg,
    summary="shared item table at the plain rate, clients weighted by examples",
    rounds=100,
    protocol="pfedrec",
)
