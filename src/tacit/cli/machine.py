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


def ready_to_compute() -> None:
    """What every command does before it trains or scores: one thread for torch (`engines/chunks.py`
    says why), and a word on stderr should kernels have to be compiled first."""
    import torch

    from tacit.cli.progress import tell_of_compiling

    torch.set_num_threads(1)
    tell_of_compiling()
