"""A method of its own, for an entry point."""

from __future__ import annotations

from dataclasses import replace

import tacit
from own_recommenders.rules import ShrunkRows


def shrunk_ncf(dim: int = 8, factor: float = 0.5) -> tacit.Method:
    return replace(tacit.fedncf(dim), sync=ShrunkRows(factor=factor))


SHRUNK_NCF = tacit.Entry(
    build=shrunk_ncf,
    summary="FedNCF with scaled rows",
    rounds=4,
    presets={"paper": {}, "mild": {"factor": 0.9}},
)
