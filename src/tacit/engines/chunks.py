"""Threads: compiled work on chunks of users is spread over them, and torch has one.

Kernels cut users into chunks whatever the threads, so that they add up in one order. Torch cuts a
sum by its own threads instead, and the last bits then follow the machine; a method that iterates on
a small dataset turns them into another ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Torch adds up on one thread while this lasts: alike on every machine, and for small clients
    it is the quickest, too. What the caller had comes back afterwards.

    >>> before = torch.get_num_threads()
    >>> with one_torch_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def each_chunk(kernel: Callable[..., None], chunks: int, threads: int, *arguments: object) -> None:
    """kernel(chunk, *arguments) for every chunk; kernels let go of Python's lock. Without numba's
    own loop over threads they compile faster.

    >>> done = []
    >>> each_chunk(lambda chunk, word: done.append(word * chunk), 3, 1, "a")
    >>> done
    ['', 'a', 'aa']
    """
    if threads == 1:
        for chunk in range(chunks):
            kernel(chunk, *arguments)
        return
    with ThreadPoolExecutor(threads) as pool:
        for finished in [pool.submit(kernel, chunk, *arguments) for chunk in range(chunks)]:
            finished.result()
