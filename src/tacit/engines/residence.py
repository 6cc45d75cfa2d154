"""Where a population lives: on the GPU that trains it, if it fits there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tacit.engines.state import State
from tacit.errors import NoRoomError


def settle(state: State, device: str) -> None:
    """Move a population to the device, to stay there between rounds; one that is too large for it
    stays in the host's memory, and its blocks travel.

    It has to fit twice, because a run keeps the selected round beside the last one, and half of the
    device is left to the blocks.

    >>> state = State({"items": torch.ones(2, 1)}, {})
    >>> settle(state, "meta")
    >>> state.shared["items"].device.type
    'meta'
    """
    leaves = [*state.shared.values(), *state.private.values(), *state.moments.values()]
    away = [leaf for leaf in leaves if leaf.device.type != torch.device(device).type]
    needed = sum(leaf.numel() * leaf.element_size() for leaf in away)
    if not away or needed > _room(device):
        return
    try:
        here = state.on(device)
    except torch.OutOfMemoryError:  # another process was quicker
        return
    state.shared, state.private, state.broadcast = here.shared, here.private, here.broadcast
    state.moments, state.server = here.moments, here.server


def halved(block: int, device: str) -> int:
    """The size of the next block after a GPU had no room for one: clients share nothing.

    >>> halved(8, "cuda")
    4
    >>> halved(1, "cuda")
    Traceback (most recent call last):
    tacit.errors.NoRoomError: One client alone does not fit the memory of cuda; use --device cpu.
    """
    if block == 1:
        raise NoRoomError(
            f"One client alone does not fit the memory of {device}; use --device cpu."
        )
    return block // 2


@contextmanager
def room_on(device: str) -> Iterator[None]:
    """Say in a sentence that a device's memory ran out in the middle of the work.

    >>> with room_on("gpu"):
    ...     raise torch.OutOfMemoryError("Tried to allocate 22.77 GiB")
    Traceback (most recent call last):
    tacit.errors.NoRoomError: The memory of gpu ran out; stop other work there, or use --device cpu.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise NoRoomError(
            f"The memory of {device} ran out; stop other work there, or use --device cpu."
        ) from error


def _room(device: str) -> float:
    """How many bytes of a population the device has room for."""
    if torch.device(device).type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    return free / 4
