"""FCF, the gradient reading (as the multimodal papers run it): shared table, private linear scorer.

Joint descent, 5 local epochs over batches of 2048, item rate η·I with η = 1, plain mean. The
original's closed-form reading is `fcf_als`.
"""

from __future__ import annotations

from tacit.backbones.head import LinearHead
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry


def fcf(dim: int = 64, rate: float = 0.1, per_item: float = 1.0, epochs: int = 5) -> Method:
    """FCF as parts.

    >>> fcf().local.items.per_item
    1.0
    """
    return Method(
        LinearHead(dim),
        local=Joint(Sgd(rate), items=Sgd(rate, per_item=per_item), epochs=epochs, batch=2048),
    )


METHODS["fcf"] = Entry(
    build=fcf,
    summary="shared item table, private linear scorer, joint descent",
    rounds=100,
    protocol="pfedrec",
)
