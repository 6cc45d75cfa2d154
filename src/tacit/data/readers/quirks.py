"""What is known to be odd about a published file, so that it need not be let through in general."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Quirks:
    """Oddities of one source that are accepted for it alone.

    >>> Quirks(repaired_times={"12 x3": "123"}).negative_times
    False
    """

    negative_times: bool = False  # times before 1970 are in the file as published
    repaired_times: Mapping[str, str] = field(default_factory=dict)  # exact damaged text -> time


NO_QUIRKS = Quirks()
