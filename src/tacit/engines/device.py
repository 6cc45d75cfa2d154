"""Where the work runs: threads over chunks of users, and populations that live on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from tacit.engines.state import State
from tacit.errors import NoRoomError, argument

# Threads: compiled work on chunks of users is spread over them, and torch has one.
#
# Kernels cut users into chunks whatever the threads, so that they add up in one order. Torch cuts
# a sum by its own threads instead, and the last bits then follow the machine; a method that
# iterates on a small dataset turns them into another ranking.


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


# Where a population lives: on the GPU that trains it, if it fits there.


def move_to_device(state: State, device: str) -> None:
    """Move a population to the device, to stay there between rounds; one that is too large for it
    stays in the host's memory, and its blocks travel.

    It has to fit twice, because a run keeps the selected round beside the last one, and half of the
    device is left to the blocks.

    >>> state = State({"items": torch.ones(2, 1)}, {})
    >>> move_to_device(state, "meta")
    >>> state.shared["items"].device.type
    'meta'
    """
    parameters = [*state.shared.values(), *state.private.values(), *state.optimizer.values()]
    away = [
        parameter for parameter in parameters if parameter.device.type != torch.device(device).type
    ]
    needed = sum(parameter.numel() * parameter.element_size() for parameter in away)
    if not away or needed > _room(device):
        return
    try:
        here = state.on(device)
    except torch.OutOfMemoryError:  # another process was quicker
        return
    state.shared, state.private, state.broadcast = here.shared, here.private, here.broadcast
    state.optimizer, state.server = here.optimizer, here.server


def halved(block: int, device: str) -> int:
    """The size of the next block after a GPU had no room for one: clients share nothing.

    >>> halved(8, "cuda")
    4
    >>> halved(1, "cuda")
    Traceback (most recent call last):
    tacit.errors.NoRoomError: One client alone does not fit the memory of cuda; use device='cpu'.
    """
    if block == 1:
        raise NoRoomError(
            f"One client alone does not fit the memory of {device}; use "
            f"{argument('device', 'cpu')}."
        )
    return block // 2


@contextmanager
def room_on(device: str) -> Iterator[None]:
    """Say in a sentence that a device's memory ran out in the middle of the work.

    >>> with room_on("gpu"):
    ...     raise torch.OutOfMemoryError("Tried to allocate 22.77 GiB")
    Traceback (most recent call last):
    tacit.errors.NoRoomError: The memory of gpu ran out; stop other work there, or use \
device='cpu'.
    """
    try:
        yield
    except RuntimeError as error:  # torch's own, or that of a solver which it calls
        if not (isinstance(error, torch.OutOfMemoryError) or "ALLOC_FAILED" in str(error)):
            raise
        raise NoRoomError(
            f"The memory of {device} ran out; stop other work there, or use "
            f"{argument('device', 'cpu')}."
        ) from error


def _room(device: str) -> float:
    """How many bytes of a population the device has room for."""
    if torch.device(device).type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    return free / 4
