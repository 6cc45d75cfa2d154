"""Papers and controls as expressions over parts. To add one: a file here, and a line in
`core/registry.py`.

The builders below are imported when first used, so that a command pays for its own method only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.methods.entry import METHODS as METHODS
from tacit.methods.entry import Entry as Entry
from tacit.methods.pfedrec import pfedrec as pfedrec  # at once: its file has the same name

if TYPE_CHECKING:
    from tacit.methods.aldi import Aldi as Aldi
    from tacit.methods.bm3 import Bm3 as Bm3
    from tacit.methods.central_trained import Mf as Mf
    from tacit.methods.central_trained import Ncf as Ncf
    from tacit.methods.central_trained import NeuMf as NeuMf
    from tacit.methods.closed_forms import Ease as Ease
    from tacit.methods.closed_forms import FedEase as FedEase
    from tacit.methods.closed_forms import FedSpectral as FedSpectral
    from tacit.methods.closed_forms import PureSvd as PureSvd
    from tacit.methods.cold_start import cold_pfedrec as cold_pfedrec
    from tacit.methods.cold_start import ifedncf as ifedncf
    from tacit.methods.cold_start import ipfedrec as ipfedrec
    from tacit.methods.cold_start import mdifffr as mdifffr
    from tacit.methods.content import cs_fcf as cs_fcf
    from tacit.methods.content import cs_fedncf as cs_fedncf
    from tacit.methods.content import fedvbpr as fedvbpr
    from tacit.methods.controls import FedPop as FedPop
    from tacit.methods.controls import MeanProfile as MeanProfile
    from tacit.methods.controls import Popularity as Popularity
    from tacit.methods.controls import RandomOrder as RandomOrder
    from tacit.methods.controls import UnseenFirst as UnseenFirst
    from tacit.methods.controls import local_only as local_only
    from tacit.methods.cs_diffrec import CsDiffRec as CsDiffRec
    from tacit.methods.dpals import DpAls as DpAls
    from tacit.methods.factorisation import fcf as fcf
    from tacit.methods.factorisation import fedavg as fedavg
    from tacit.methods.factorisation import fedmf as fedmf
    from tacit.methods.factorisation import fedncf as fedncf
    from tacit.methods.factorisation import fedneumf as fedneumf
    from tacit.methods.factorisation import fedrecon as fedrecon
    from tacit.methods.fcf_als import FcfAls as FcfAls
    from tacit.methods.feddae import FedDAE as FedDAE
    from tacit.methods.fedmix import FedMix as FedMix
    from tacit.methods.fednext import FedNext as FedNext
    from tacit.methods.fedpergnn import FedPerGNN as FedPerGNN
    from tacit.methods.gar import Gar as Gar
    from tacit.methods.heater import Heater as Heater
    from tacit.methods.ials import Ials as Ials
    from tacit.methods.linear_references import Edlae as Edlae
    from tacit.methods.linear_references import FedSlim as FedSlim
    from tacit.methods.linear_references import Slim as Slim
    from tacit.methods.metamf import MetaMF as MetaMF
    from tacit.methods.mgcn import Mgcn as Mgcn
    from tacit.methods.order_references import Markov as Markov
    from tacit.methods.order_references import Slist as Slist
    from tacit.methods.pairwise_references import BprMf as BprMf
    from tacit.methods.pairwise_references import LightGcn as LightGcn
    from tacit.methods.personal_tables import cofedrec as cofedrec
    from tacit.methods.personal_tables import fedrap as fedrap
    from tacit.methods.personal_tables import gpfedrec as gpfedrec
    from tacit.methods.pgl import Pgl as Pgl
    from tacit.methods.sequence_models import Gru4Rec as Gru4Rec
    from tacit.methods.sequence_models import SasRec as SasRec
    from tacit.methods.vbpr import Vbpr as Vbpr

WHERE = {
    "Aldi": "aldi",
    "CsDiffRec": "cs_diffrec",
    "DpAls": "dpals",
    "FcfAls": "fcf_als",
    "FedDAE": "feddae",
    "FedMix": "fedmix",
    "FedNext": "fednext",
    "FedPerGNN": "fedpergnn",
    "Ials": "ials",
    "Gar": "gar",
    "Heater": "heater",
    "MetaMF": "metamf",
    "Bm3": "bm3",
    "Mgcn": "mgcn",
    "Pgl": "pgl",
    "Vbpr": "vbpr",
    **dict.fromkeys(("Mf", "Ncf", "NeuMf"), "central_trained"),
    **dict.fromkeys(("Ease", "FedEase", "FedSpectral", "PureSvd"), "closed_forms"),
    **dict.fromkeys(("cold_pfedrec", "ifedncf", "ipfedrec", "mdifffr"), "cold_start"),
    **dict.fromkeys(("cs_fcf", "cs_fedncf", "fedvbpr"), "content"),
    **dict.fromkeys(("MeanProfile", "Popularity", "RandomOrder", "UnseenFirst"), "controls"),
    **dict.fromkeys(("FedPop", "local_only"), "controls"),
    **dict.fromkeys(("fcf", "fedavg", "fedmf", "fedncf", "fedneumf", "fedrecon"), "factorisation"),
    **dict.fromkeys(("cofedrec", "fedrap", "gpfedrec"), "personal_tables"),
    **dict.fromkeys(("Edlae", "FedSlim", "Slim"), "linear_references"),
    **dict.fromkeys(("Markov", "Slist"), "order_references"),
    **dict.fromkeys(("BprMf", "LightGcn"), "pairwise_references"),
    **dict.fromkeys(("Gru4Rec", "SasRec"), "sequence_models"),
}


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module 'tacit.methods' has no attribute {name!r}")
    value = getattr(import_module(f"tacit.methods.{WHERE[name]}"), name)
    globals()[name] = value  # found once; the next look does not come here
    return value
