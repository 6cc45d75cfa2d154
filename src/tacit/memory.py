"""What the machine has: cores, and memory for what is about to be read or built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tacit.errors import TacitError

_GROUP = Path("/sys/fs/cgroup")  # the limits of a container
_CACHES = ("inactive_file", "active_file")  # pages of files: counted there, but given up when asked


def cores() -> int:
    """The cores that this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_bytes() -> int | None:
    """Free memory as the system tells it, within the limits of a container and of the process; None
    where it does not say.

    >>> free = available_bytes()
    >>> free is None or free >= 0
    True
    """
    free: list[int] = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    limit, used = _GROUP / "memory.max", _GROUP / "memory.current"
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        free.append(int(limit.read_text()) - int(used.read_text()) + _cached())
    if not free and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if (left := _left_to_the_process()) is not None:
        free.append(left)
    return max(min(free), 0) if free else None


def _cached() -> int:
    statistics = _GROUP / "memory.stat"
    if not statistics.exists():
        return 0
    pairs = (line.split() for line in statistics.read_text().splitlines())
    return sum(int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in _CACHES)


def _left_to_the_process() -> int | None:
    """What `ulimit -v` leaves; None where there is no such limit."""
    if sys.platform == "win32":
        return None
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    size = Path("/proc/self/statm")
    if most == resource.RLIM_INFINITY or not size.exists():
        return None
    return most - int(size.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


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
