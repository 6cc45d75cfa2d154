"""Blocks of clients with their draws; while one block trains on a GPU, the host draws the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from tacit.engines.draws import BlockDraws


def blocks_ahead(
    order_P: np.ndarray, size: int, draw: Callable[[np.ndarray], BlockDraws], threads: int
) -> Iterator[tuple[np.ndarray, BlockDraws]]:
    """(places, draws) of each block of `size` places, in order; `threads` blocks are drawn ahead,
    none with 0.

    >>> [place_B.tolist() for place_B, _ in blocks_ahead(np.arange(5), 2, lambda place_B: None, 2)]
    [[0, 1], [2, 3], [4]]
    """
    blocks = [order_P[begin : begin + size] for begin in range(0, len(order_P), size)]
    if not threads:
        yield from ((place_B, draw(place_B)) for place_B in blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[BlockDraws]] = deque()
        for number, place_B in enumerate(blocks):
            while len(waiting) <= threads and number + len(waiting) < len(blocks):
                waiting.append(pool.submit(draw, blocks[number + len(waiting)]))
            yield place_B, waiting.popleft().result()
