"""A plug-in, for an entry point."""

from __future__ import annotations

from dataclasses import replace

import tacit
from own_recommenders.rules import ShrunkRows


def shrink_rows(method: tacit.Method, factor: float = 0.5) -> tacit.Method:
    return replace(method, sync=ShrunkRows(factor=factor))


SHRINK_ROWS = tacit.Plugin(shrink_rows, "read scaled item rows")
