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
    """What every command does before it trains or scores: one thread for torch, and a word on
    stderr should kernels have to be compiled first."""
    from tacit.cli.progress import tell_of_compiling

    one_torch_thread()
    tell_of_compiling()


def one_torch_thread() -> None:
    """Clients are small, so torch's own threads cost more than they bring; kernels have theirs."""
    import torch

    torch.set_num_threads(1)
