"""IFedRec: a map from attributes to rows on the server, to which clients are pulled.

IPFedRec has PFedRec's clients, IFedNCF a private perceptron over [user vector; item row]. Released
widths are 200; at MDiffFR's width of 64 the released pull of IPFedRec (10) diverges, since a step
multiplies the distance by 1 − 2 · 10 · 0.1 · 80 / 64, so its preset for that width pulls with 1.
The released IFedNCF moves the user vector at a rate of its own; here it moves with the layers.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.backbones.mlp import SharedMlp
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.data.sampling import Sampling
from tacit.local.joint import Joint
from tacit.methods.entry import METHODS, Entry
from tacit.methods.mdifffr import cold_pfedrec
from tacit.plugins import cold


def ipfedrec(
    dim: int = 200, strength: float = 10.0, per_item: float = 80.0, modalities: str = "text"
) -> Method:
    """IPFedRec as parts.

    >>> ipfedrec().sync
    Anchored(strength=10.0)
    """
    return cold.ifedrec(cold_pfedrec(dim, per_item=per_item), modalities, strength)


def ifedncf(
    dim: int = 200,
    strength: float = 1.0,
    rate: float = 0.5,
    per_item: float = 80.0,
    modalities: str = "text",
) -> Method:
    """IFedNCF as parts.

    >>> ifedncf(dim=8).backbone.layers
    (8, 1)
    """
    backbone = SharedMlp(dim, (dim, 1), user_scale=1.0, item_scale=1.0, scorer="private")
    local = Joint(Sgd(rate), items=Sgd(rate, per_item=per_item))
    base = replace(Method(backbone, local=local), sampling=Sampling(negatives=5))
    return cold.ifedrec(base, modalities, strength)


METHODS["ipfedrec"] = Entry(
    build=ipfedrec,
    summary="PFedRec's clients, pulled to rows that a map makes from content",
    rounds=100,
    protocol="mdifffr",
    presets={"paper": {}, "narrow": {"dim": 64, "strength": 1.0}},
)

METHODS["ifedncf"] = Entry(
    build=ifedncf,
    summary="private perceptrons, pulled to rows that a map makes from content",
    rounds=100,
    protocol="mdifffr",
    presets={"paper": {}, "narrow": {"dim": 64, "rate": 0.1}},
)
