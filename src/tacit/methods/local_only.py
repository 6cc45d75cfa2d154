"""The control without federation: each client trains alone, on a table that nobody else sees.

Under honest negatives it cannot know an item that its user never touched, so it stays at chance or
below. Where it soars, the evaluation leaks.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.core.method import Method
from tacit.methods.entry import METHODS, Entry
from tacit.methods.pfedrec import pfedrec
from tacit.sync.isolated import Isolated


def local_only(dim: int = 32, rate: float = 0.1, per_item: float = 80.0) -> Method:
    """PFedRec's client that never communicates.

    >>> local_only().sync.sends(1)
    False
    """
    return replace(pfedrec(dim, rate, per_item), sync=Isolated())


METHODS["local_only"] = Entry(
    build=local_only,
    summary="control: PFedRec's client, alone for ever",
    rounds=100,
    protocol="pfedrec",
)
