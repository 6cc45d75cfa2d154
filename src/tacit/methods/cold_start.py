"""Methods for items that nobody has touched: IFedRec and MDiffFR."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.data.sampling import Sampling
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.pfedrec import pfedrec
from tacit.parts.backbones import SharedMlp
from tacit.parts.local import Joint
from tacit.parts.sync import Replace
from tacit.plugins import cold

# IFedRec: a map from attributes to rows on the server, to which clients are pulled.
#
# IPFedRec has PFedRec's clients, IFedNCF a private perceptron over [user vector; item row].
# Released widths are 200; at MDiffFR's width of 64 the released pull of IPFedRec (10) diverges,
# since a step multiplies the distance by 1 − 2 · 10 · 0.1 · 80 / 64, so its preset for that width
# pulls with 1. The released IFedNCF moves the user vector at a rate of its own; here it moves with
# the layers.


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


# MDiffFR: PFedRec's clients, and a server-side diffusion that makes rows for untouched items.
#
# Clients keep (w_u, b_u) and train a copy of the table that the server averages; width 64, five
# negatives, item rate 0.1 · I · 80, 100 rounds. The paper states neither the server's optimiser nor
# its rate. `released` has those of its code; `tuned` was chosen on validation (docs/coldstart.md).


def cold_pfedrec(dim: int = 64, rate: float = 0.1, per_item: float = 80.0) -> Method:
    """The clients of MDiffFR and IPFedRec: PFedRec without tuned copies, which say nothing of an
    item that nobody has touched.

    >>> cold_pfedrec().sampling.negatives
    5
    """
    base = pfedrec(dim, rate, per_item)
    return replace(base, sync=Replace(), sampling=Sampling(negatives=5))


def mdifffr(
    dim: int = 64,
    per_item: float = 80.0,
    modalities: str = "text",
    generator: Literal["paper", "released", "tuned"] = "paper",
    every: int = 1,
) -> Method:
    """MDiffFR as parts.

    >>> type(mdifffr().cold).__name__
    'Diffusion'
    """
    base = cold_pfedrec(dim, per_item=per_item)
    return cold.mdifffr(base, modalities, generator, every)


METHODS["mdifffr"] = Entry(
    build=mdifffr,
    summary="PFedRec's clients; a guided diffusion makes rows for untouched items",
    rounds=100,
    protocol="mdifffr",
    presets={
        "paper": {},
        "released": {"generator": "released"},
        "tuned": {"generator": "tuned"},
    },
    chosen={"tuned": Chosen(cold.TUNED_ON)},
)

METHODS["light_mdifffr"] = Entry(
    build=mdifffr,
    summary="MDiffFR that trains its diffusion in every second round",
    rounds=100,
    protocol="mdifffr",
    presets={
        "paper": {"every": 2},
        "released": {"every": 2, "generator": "released"},
        "tuned": {"every": 2, "generator": "tuned"},
    },
    chosen={"tuned": Chosen(cold.TUNED_ON)},
)
