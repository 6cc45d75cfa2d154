"""Whether threads change a bit: a run on one thread beside a run on two that really are two.

Users are cut into chunks, and a chunk is the least that a thread can take: a dataset of one chunk
runs on one thread whatever it is told, and proves nothing. So kernels are watched while they run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from tacit.engines.accelerators import queue
from tacit.engines.cohort import CohortEngine
from tacit.testing.play import Trace

POOL = queue  # the one module that spreads chunks over threads
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class ThreadSpread:
    """One call of a kernel: how many chunks there were, and how many threads took them."""

    kernel: str
    chunks: int
    threads: int


@contextmanager
def watched() -> Iterator[list[ThreadSpread]]:
    """The kernels that are spread over threads inside the block, call by call.

    >>> from tacit.data.protocol import CLEAN
    >>> from tacit.data.split import split_dataset
    >>> from tacit.methods import fedmf
    >>> from tacit.testing.play import trace
    >>> from tacit.testing.synthetic import ragged
    >>> train = split_dataset(ragged(n_users=150), CLEAN).train
    >>> with watched() as found:
    ...     _ = trace(fedmf(dim=4), train, CohortEngine(fused="always"), rounds=1)
    >>> found
    [ThreadSpread(kernel='train_linear', chunks=3, threads=1)]
    """
    found: list[ThreadSpread] = []
    with patch.object(POOL, "each_chunk", _met(POOL.each_chunk, found)):
        yield found


def _met(each_chunk: Callable[..., None], found: list[ThreadSpread]) -> Callable[..., None]:
    """Python's threads, which wait for each other in their first chunks: none can do all alone."""

    def call(kernel: Callable[..., None], chunks: int, threads: int, *arguments: Any) -> None:
        meeting = threading.Barrier(min(chunks, threads))
        workers: set[int] = set()

        def together(chunk: int, *arguments: Any) -> None:
            if chunk < meeting.parties:
                meeting.wait(_PATIENCE_SECONDS)
            workers.add(threading.get_ident())
            kernel(chunk, *arguments)

        each_chunk(together, chunks, threads, *arguments)
        found.append(ThreadSpread(kernel.__name__, chunks, len(workers)))

    return call


def assert_threads_change_nothing(play: Callable[[CohortEngine], Trace]) -> None:
    """Not a bit: `play` gives the same parameters, tuned rows and loss on one thread and on two.

    In float64: sums are kept in it, so another order of chunks shows there and hides in float32.
    """
    engines = (CohortEngine(torch.float64, threads=n, fused="always") for n in (1, 2))
    traces = []
    for engine in engines:
        with watched() as found:
            traces.append(play(engine))
        assert found, "no kernel ran that threads could share"
        for spread in found:
            assert spread.chunks > 1, f"{spread}: one chunk is all that one thread can take"
            assert spread.threads == engine.threads, f"{spread}, not {engine.threads} threads"
    one, two = traces
    for name, value in one.end.items():
        assert torch.equal(value, two.end[name]), f"two threads change {name}"
    assert one.state.loss == two.state.loss
    assert (one.state.tuned is None) == (two.state.tuned is None)
    if one.state.tuned is not None and two.state.tuned is not None:
        for user in range(len(one.state.fresh_U)):
            item_R, row_RD = one.state.tuned.of(user)
            other_R, other_RD = two.state.tuned.of(user)
            same = np.array_equal(item_R, other_R) and torch.equal(row_RD, other_RD)
            assert same, f"two threads change the tuned rows of user {user}"
