"""The rows that clients tuned for themselves: what a replace-every-round method must keep.

A client has room from the first round that it takes part in, and only for the items that one round
can touch. Rooms lie one after another in the order in which clients came. So memory grows with the
people who took part, and no array has users times items.

Rows lie in memory or, when asked, in a file. The file has no name: it goes away with the process,
however that ends, and a run folder never holds a part of it. Where rows lie changes no number.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Protocol

import numpy as np
import torch

from tacit.data.sampling import REDRAW_CODES, Sampling, samples_per_user
from tacit.data.views import TrainView
from tacit.errors import argument
from tacit.files import writing
from tacit.memory import require_memory

PIECE = 2**18  # rows that are copied at once

# Arrays that grow at their end.


class Growing(Protocol):
    """An array that grows at its end. What was read of it before stays readable."""

    def grow(self, rows: int, most: int) -> np.ndarray:
        """The first rows, with zeros where nothing was written; there will never be over `most`."""
        ...

    def let_go(self) -> None:
        """Give memory back that the system can fill again from a file."""
        ...

    def empty(self) -> Growing:
        """Another one of the same kind, without rows."""
        ...


class InMemory:
    """Rows in memory. The system hands zeros out page by page as they are first written, so room
    for later rows costs nothing yet.

    >>> rows = InMemory(np.zeros((0, 2)))
    >>> rows.grow(3, most=4).shape, rows.grow(4, most=4).sum()
    ((3, 2), np.float64(0.0))
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.rows = array, len(array)

    def grow(self, rows: int, most: int) -> np.ndarray:
        if rows > len(self.array):
            like = self.array
            require_memory(
                rows * int(np.prod(like.shape[1:])) * like.itemsize,
                what="The rows of all clients that took part so far",
                hint=f"keep them in a file with {argument('private_on_disk', True)}",
            )
            room = min(most, max(rows, 2 * len(like)))
            self.array = np.zeros((room, *like.shape[1:]), like.dtype)
            self.array[: self.rows] = like[: self.rows]
        self.rows = max(self.rows, rows)
        return self.array[: self.rows]

    def let_go(self) -> None:
        """Nothing is anywhere else."""

    def empty(self) -> InMemory:
        return InMemory(np.zeros((0, *self.array.shape[1:]), self.array.dtype))


class OnDisk:
    """Rows in a file without a name, which is made in `folder` when the first rows come.

    >>> place = Path(tempfile.gettempdir())
    >>> rows = OnDisk(place, np.zeros((0, 2)))
    >>> before = rows.grow(3, most=4)
    >>> before[1] = 7
    >>> rows.grow(4, most=4)[1].tolist(), before[1].tolist()
    ([7.0, 7.0], [7.0, 7.0])
    """

    def __init__(self, folder: Path, like: np.ndarray) -> None:
        self.folder = folder
        self.array = np.zeros((0, *like.shape[1:]), like.dtype)
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None

    def grow(self, rows: int, most: int) -> np.ndarray:
        if rows > len(self.array):
            shape, kind = (rows, *self.array.shape[1:]), self.array.dtype
            size = int(np.prod(shape)) * kind.itemsize
            with writing(self.folder / "private rows"):
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
                    weakref.finalize(self, self._file.close)  # open as long as the rows live
                _extend(self._file.fileno(), size, self.folder)
                # all mappings of one file show the same bytes, so nothing is copied
                self._map = mmap.mmap(self._file.fileno(), size)
            self.array = np.frombuffer(self._map, kind).reshape(shape)
        return self.array

    def let_go(self) -> None:
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)  # what was written stays in the file

    def empty(self) -> OnDisk:
        return OnDisk(self.folder, self.array)


def _extend(handle: int, size: int, folder: Path) -> None:
    """Take the room on the disk now: a full disk is told here, and not in the middle of a round."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    if size - os.fstat(handle).st_size > shutil.disk_usage(folder).free:
        raise OSError(28, "No space left on device")
    os.ftruncate(handle, size)


def _copy_rows(source: Growing, target: Growing, rows: int) -> None:
    """A piece at a time, so that of two files little is in memory."""
    old_C, new_C = source.grow(rows, rows), target.grow(rows, rows)
    for begin in range(0, rows, PIECE):
        new_C[begin : begin + PIECE] = old_C[begin : begin + PIECE]
        source.let_go()
        target.let_go()


# The rows of all clients.


def room_of(
    train: TrainView, sampling: Sampling, epochs: int, rows: Literal["touched", "all"] = "touched"
) -> np.ndarray:
    """How many rows each user can touch in one round, or all where a rule moves all."""
    if rows == "all":
        return np.full(train.n_users, train.n_items)
    draws = epochs if sampling.redraw_code == REDRAW_CODES["epoch"] else 1
    return np.minimum(samples_per_user(train, sampling) * draws, train.n_items)


@dataclass(eq=False)
class TunedRows:
    """User u's rows are `value_CD[start_U[u] : start_U[u] + count_U[u]]`, of items `item_C`.

    One who never took part has no room, and -1 as its start. `room_U` is how many rows each user
    can touch in one round, so that a round writes in place.

    >>> tuned = TunedRows.of_nobody(np.array([3, 2]), dim=1, dtype=torch.float32)
    >>> tuned.write(1, np.array([7]), torch.ones(1, 1))
    >>> tuned.start_U.tolist(), len(tuned.item_C), tuned.of(1)[0].tolist(), len(tuned.of(0)[0])
    ([-1, 0], 2, [7], 0)
    """

    room_U: np.ndarray
    start_U: np.ndarray
    count_U: np.ndarray
    item_C: np.ndarray  # int32
    value_CD: torch.Tensor
    _items: Growing = field(init=False, repr=False)
    _values: Growing = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._items = InMemory(self.item_C)
        self._values = InMemory(self.value_CD.numpy())

    @classmethod
    def of_nobody(cls, room_U: np.ndarray, dim: int, dtype: torch.dtype) -> TunedRows:
        """The beginning: nobody took part yet."""
        n_users = len(room_U)
        return cls(
            np.asarray(room_U, dtype=np.int64),
            np.full(n_users, -1, dtype=np.int64),
            np.zeros(n_users, dtype=np.int64),
            np.zeros(0, dtype=np.int32),
            torch.zeros((0, dim), dtype=dtype),
        )

    def keep_on_disk(self, folder: Path) -> None:
        """From now on the rows lie in a file in `folder`, which has to be there with the first."""
        self._move_to(OnDisk(folder, self.item_C), OnDisk(folder, self.value_CD.numpy()))

    def copy(self) -> TunedRows:
        """The same rows, in memory or in a file of their own."""
        copy = TunedRows(
            self.room_U, self.start_U.copy(), self.count_U.copy(), self.item_C, self.value_CD
        )
        copy._items, copy._values = self._items, self._values
        copy._move_to(self._items.empty(), self._values.empty())
        return copy

    def _move_to(self, items: Growing, values: Growing) -> None:
        rows = len(self.item_C)
        _copy_rows(self._items, items, rows)
        _copy_rows(self._values, values, rows)
        self._items, self._values = items, values
        self._show(rows, rows)

    def _show(self, rows: int, most: int) -> None:
        self.item_C = self._items.grow(rows, most)
        self.value_CD = torch.from_numpy(self._values.grow(rows, most))

    def make_room(self, user_P: np.ndarray) -> None:
        """Room for those of some users who have none yet, before they play a round."""
        new_Q = user_P[self.start_U[user_P] < 0]
        self._values.let_go()
        if not len(new_Q):
            return
        end_Q = len(self.item_C) + np.cumsum(self.room_U[new_Q])
        self._show(int(end_Q[-1]), int(self.room_U.sum()))
        self.start_U[new_Q] = end_Q - self.room_U[new_Q]

    def of(self, user: int) -> tuple[np.ndarray, torch.Tensor]:
        """The items and rows that one user last tuned."""
        begin = max(0, int(self.start_U[user]))
        end = begin + int(self.count_U[user])
        return self.item_C[begin:end], self.value_CD[begin:end]

    def write(self, user: int, item_R: np.ndarray, value_RD: torch.Tensor) -> None:
        """Put rows in the place of those that the user tuned before."""
        if self.start_U[user] < 0:
            self.make_room(np.array([user]))
        if len(item_R) > self.room_U[user]:  # they would run into the next user's rows
            raise ValueError(f"user {user} has room for {self.room_U[user]} rows")
        begin = int(self.start_U[user])
        self.item_C[begin : begin + len(item_R)] = item_R
        self.value_CD[begin : begin + len(item_R)] = value_RD
        self.count_U[user] = len(item_R)
