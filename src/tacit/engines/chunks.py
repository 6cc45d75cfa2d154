"""Compiled work on chunks of users, spread over threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


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
