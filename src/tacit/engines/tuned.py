"""The rows that clients last tuned: what a replace-every-round method must keep, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from tacit.data.drawing import REDRAW_CODES
from tacit.data.sampling import Sampling, samples_per_user
from tacit.data.views import TrainView


@dataclass(eq=False)
class TunedRows:
    """User u's rows are `value_CD[start_U1[u] : start_U1[u] + count_U[u]]`, of items `item_C`.

    Each user has room for as many rows as it can touch in one round, so a round writes in place.
    """

    start_U1: np.ndarray
    count_U: np.ndarray
    item_C: np.ndarray  # int32
    value_CD: torch.Tensor

    @classmethod
    def allocate(
        cls,
        train: TrainView,
        sampling: Sampling,
        epochs: int,
        dim: int,
        dtype: torch.dtype,
        rows: Literal["touched", "all"] = "touched",
    ) -> TunedRows:
        room_U = cls.room(train, sampling, epochs, rows)
        start_U1 = np.concatenate([[0], np.cumsum(room_U)]).astype(np.int64)
        total = int(start_U1[-1])
        return cls(
            start_U1,
            np.zeros(train.n_users, dtype=np.int64),
            np.zeros(total, dtype=np.int32),
            torch.zeros((total, dim), dtype=dtype),
        )

    @staticmethod
    def room(
        train: TrainView,
        sampling: Sampling,
        epochs: int,
        rows: Literal["touched", "all"] = "touched",
    ) -> np.ndarray:
        """How many rows each user can touch in one round, or all where a rule moves all."""
        if rows == "all":
            return np.full(train.n_users, train.n_items)
        draws = epochs if sampling.redraw_code == REDRAW_CODES["epoch"] else 1
        return np.minimum(samples_per_user(train, sampling) * draws, train.n_items)

    def copy(self) -> TunedRows:
        return TunedRows(
            self.start_U1, self.count_U.copy(), self.item_C.copy(), self.value_CD.clone()
        )

    def of(self, user: int) -> tuple[np.ndarray, torch.Tensor]:
        """The items and rows that one user last tuned."""
        begin = int(self.start_U1[user])
        end = begin + int(self.count_U[user])
        return self.item_C[begin:end], self.value_CD[begin:end]

    def write(self, user: int, item_R: np.ndarray, value_RD: torch.Tensor) -> None:
        begin = int(self.start_U1[user])
        self.item_C[begin : begin + len(item_R)] = item_R
        self.value_CD[begin : begin + len(item_R)] = value_RD
        self.count_U[user] = len(item_R)


def kernel_arguments(
    tuned: TunedRows | None, kind: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
    """Tuned rows as kernels take them: starts, counts, items, values, and whether there are any.

    >>> kernel_arguments(None, np.dtype(np.float32))[-1]
    False
    """
    if tuned is None:
        none = np.zeros(1, dtype=np.int64)
        return none, none, np.zeros(1, np.int32), np.zeros((1, 1), kind), False
    return tuned.start_U1, tuned.count_U, tuned.item_C, tuned.value_CD.numpy(), True
