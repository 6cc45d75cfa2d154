"""Ask before taking: is there memory for a population's tables?"""

from __future__ import annotations

import os
from pathlib import Path

from tacit.errors import TacitError


def available_bytes() -> int | None:
    """Free memory as the system tells it, within a container's limit; None where it does not say.

    >>> free = available_bytes()
    >>> free is None or free > 0
    True
    """
    free: list[int] = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    limit = Path("/sys/fs/cgroup/memory.max")
    used = Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        free.append(int(limit.read_text()) - int(used.read_text()))
    if not free and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(free) if free else None


def require_memory(needed: int, *, what: str, hint: str, free: int | None = None) -> None:
    """Refuse before allocating what cannot fit, and say how much would.

    >>> require_memory(8, what="a table", hint="use less", free=4)
    Traceback (most recent call last):
    tacit.errors.TacitError: a table need 0.0 GB of memory but only 0.0 GB are free; use less.
    """
    free = available_bytes() if free is None else free
    if free is not None and needed > free:
        raise TacitError(
            f"{what} need {needed / 1e9:.1f} GB of memory but only {free / 1e9:.1f} GB are free; "
            f"{hint}."
        )
