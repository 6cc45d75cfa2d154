"""What one check found: numbers, what they would be if nothing leaked, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["pass", "FLAG", "note"]


@dataclass(frozen=True)
class Finding:
    """One check of an audit.

    `FLAG` says that a score under this protocol is not what it seems, `note` that a reader must
    know something, or that the check does not apply. `measured` and `honest` are the deciding
    number and its bound as they stand in the table; `numbers` holds everything, for a program.

    >>> Finding("tied times", "note", "Nobody's.", {"share": 0.0}).verdict
    'note'
    """

    name: str
    verdict: Verdict
    says: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    measured: str = ""
    honest: str = ""


def does_not_apply(name: str, why: str) -> Finding:
    """The finding of a check that has nothing to look at.

    >>> does_not_apply("draws", "it draws no negatives").says
    'Does not apply: it draws no negatives.'
    """
    return Finding(name, "note", f"Does not apply: {why}.")
