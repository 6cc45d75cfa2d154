"""How a command uses the machine."""

from __future__ import annotations

import os


def cores() -> int:
    """The cores that this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_torch_thread() -> None:
    """Clients are small, so torch's own threads cost more than they bring; kernels have theirs."""
    import torch

    torch.set_num_threads(1)
