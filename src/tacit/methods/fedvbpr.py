"""FedAvg + VBPR: the id row with projected content beside it, and a pairwise loss.

u · [E_i ; W [text_i ; image_i]]. User vectors are trained and stay on the device (in released code
no optimiser owns them, so they stay at their first values); E and W are shared.
"""

from __future__ import annotations

from tacit.backbones.dot import DotProduct
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.items.appended import Appended
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry
from tacit.objectives.bpr import PairwiseRanking
from tacit.plugins.fusion import with_encoder
from tacit.server.mean import Mean


def fedvbpr(
    dim: int = 128,
    rate: float = 1.0,
    item_rate: float = 10.0,
    encoder_rate: float = 0.01,
    epochs: int = 5,
) -> Method:
    """FedVBPR as parts; `dim` is the width of both halves together.

    >>> fedvbpr().items
    Appended(modalities=('text', 'image'), missing='mean', placement='client', without=())
    """
    base = Method(
        DotProduct(dim),
        items=Appended(),
        local=Joint(Sgd(rate), items=Sgd(item_rate), epochs=epochs, batch=2048),
        objective=PairwiseRanking(),
        server=Mean("examples"),
    )
    return with_encoder(base, "gradients", encoder_rate)


METHODS["fedvbpr"] = Entry(
    build=fedvbpr,
    summary="id row beside projected content, pairwise loss, user vectors private",
    rounds=100,
    protocol="fedmr",
)
