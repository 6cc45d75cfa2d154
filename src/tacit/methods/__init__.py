"""Papers and controls as expressions over parts. To add one: a file here, and one line below."""

from __future__ import annotations

from tacit.methods import (
    ease,
    popularity,
    pure_svd,
    random_order,
)
from tacit.methods import (
    fedmf as fedmf_file,
)
from tacit.methods import (
    fedncf as fedncf_file,
)
from tacit.methods import (
    local_only as local_only_file,
)
from tacit.methods import (
    pfedrec as pfedrec_file,
)
from tacit.methods.ease import Ease
from tacit.methods.entry import Entry
from tacit.methods.fedmf import fedmf
from tacit.methods.fedncf import fedncf
from tacit.methods.local_only import local_only
from tacit.methods.pfedrec import pfedrec
from tacit.methods.popularity import Popularity
from tacit.methods.pure_svd import PureSvd
from tacit.methods.random_order import RandomOrder

METHODS: dict[str, Entry] = {
    "fedmf": fedmf_file.ENTRY,
    "fedncf": fedncf_file.ENTRY,
    "pfedrec": pfedrec_file.ENTRY,
    "local_only": local_only_file.ENTRY,
    "popularity": popularity.ENTRY,
    "random": random_order.ENTRY,
    "ease": ease.ENTRY,
    "pure_svd": pure_svd.ENTRY,
}

__all__ = [
    "METHODS",
    "Ease",
    "Entry",
    "Popularity",
    "PureSvd",
    "RandomOrder",
    "fedmf",
    "fedncf",
    "local_only",
    "pfedrec",
]
