"""FedRecon: federated reconstruction (Singhal et al., NeurIPS 2021), as PFedRec compares with it.

Nobody keeps a user vector. In every round a client draws one, fits it to the frozen item table,
then moves the item rows with it and sends their change, weighted by its examples; to be ranked it
fits one once more, to the new table. PFedRec's setting: width 32, cross-entropy, 4 negatives.
Neither paper prints rates for it; a vector fitted from scratch needs larger steps than a kept one.
Ours were the best of a dozen on ML-100K's validation part.
"""

from __future__ import annotations

from tacit.backbones.dot import DotProduct
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.reconstruct import Reconstruct
from tacit.methods.entry import METHODS, Entry
from tacit.server.mean import Mean


def fedrecon(
    dim: int = 32,
    rate: float = 3.0,
    item_rate: float = 0.1,
    per_item: float = 5.0,
    reconstruct_epochs: int = 3,
) -> Method:
    """FedRecon as parts.

    >>> fedrecon().local.forgets
    True
    """
    return Method(
        DotProduct(dim),
        local=Reconstruct(
            Sgd(rate), Sgd(item_rate, per_item=per_item), reconstruct_epochs=reconstruct_epochs
        ),
        server=Mean("examples"),
    )


METHODS["fedrecon"] = Entry(
    build=fedrecon,
    summary="user vector fitted from scratch every round, shared item table",
    rounds=100,
    protocol="pfedrec",
)
