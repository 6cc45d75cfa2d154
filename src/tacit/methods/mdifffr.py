"""MDiffFR: PFedRec's clients, and a server-side diffusion that makes rows for untouched items.

Clients keep (w_u, b_u) and train a copy of the table that the server averages; width 64, five
negatives, item rate 0.1 · I · 80, 100 rounds. The paper states neither the server's optimiser nor
its rate. `released` has those of its code; `tuned` was chosen on validation (docs/coldstart.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.method import Method
from tacit.data.sampling import Sampling
from tacit.methods.entry import METHODS, Entry
from tacit.methods.pfedrec import pfedrec
from tacit.plugins import cold
from tacit.sync.replace import Replace


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
)
