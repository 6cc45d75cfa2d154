"""Several cells at the same time, one process each: cells are small, and share nothing."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from threading import Thread
from types import TracebackType

from tacit.benchmarks.tables.cells import Cell
from tacit.benchmarks.tables.work import Outcome, Work, do


class Pool:
    """Processes that take cells in order.

    Cells of one place follow one another until its setting is chosen: the first makes the choice
    that the others use.
    """

    def __init__(self, workers: int) -> None:
        # spawned, not forked: compiled kernels and their threads do not survive a fork
        context = multiprocessing.get_context("spawn")
        self.workers = workers
        self.pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ready)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.pool.shutdown(cancel_futures=True)

    def drive(
        self,
        ordered: Sequence[Cell],
        chosen: Callable[[Cell], bool],
        begin: Callable[[Cell], Work | None],
        absorb: Callable[[Outcome], None],
    ) -> bool:
        """Do all cells; True where somebody stopped it.

        `begin` makes the work of a cell, or None where it does not fit any more; `absorb` takes
        what came out.
        """
        waiting, flying = list(ordered), dict[Future[Outcome], Cell]()
        stopped = False
        while flying or (waiting and not stopped):
            try:
                while not stopped and len(flying) < self.workers:
                    cell = _next(waiting, flying.values(), chosen)
                    if cell is None:
                        break
                    waiting.remove(cell)
                    work = begin(cell)
                    if work is not None:
                        flying[self.pool.submit(do, work)] = cell
                done, _ = wait(flying, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:  # the processes have heard it too, and end their round
                stopped = True
                continue
            for future in done:
                del flying[future]
                try:
                    outcome = future.result()
                except BrokenProcessPool:  # it was idle, or still importing, when it heard Ctrl-C
                    stopped = True
                    continue
                absorb(outcome)
                stopped = stopped or outcome.interrupted
        return stopped


def _next(
    waiting: Iterable[Cell], flying: Iterable[Cell], chosen: Callable[[Cell], bool]
) -> Cell | None:
    busy = {cell.place.key for cell in flying}
    return next((c for c in waiting if chosen(c) or c.place.key not in busy), None)


def _ready() -> None:
    import torch

    torch.set_num_threads(1)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot shut its pool down, and its processes would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
