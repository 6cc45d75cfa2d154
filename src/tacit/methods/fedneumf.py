"""FedNCF as the multimodal papers run it: perceptron and product branch (NeuMF's two).

5 local epochs over batches of 2048, one rate for everything, plain mean. The papers' released code
averages everybody's user vectors or trains purely locally; here, as their text says, user vectors
are private, item rows, tower and output layer are shared.
"""

from __future__ import annotations

from tacit.backbones.neural_mf import NeuralMf
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry


def fedneumf(
    dim: int = 128, rate: float = 0.1, per_item: float | None = None, epochs: int = 5
) -> Method:
    """FedNCF with both branches as parts; `dim` is the width of both together.

    >>> fedneumf().backbone.layers
    (64, 32, 16)
    """
    items = Sgd(rate, per_item=per_item)
    return Method(NeuralMf(dim), local=Joint(Sgd(rate), items=items, epochs=epochs, batch=2048))


METHODS["fedneumf"] = Entry(
    build=fedneumf,
    summary="FedNCF with perceptron and product branch, private user vectors",
    rounds=100,
    protocol="pfedrec",
)
