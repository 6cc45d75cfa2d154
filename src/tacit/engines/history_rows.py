"""Private tables of which a client reads and moves only its history's rows, kept as those rows.

A table per client is gigabytes for thousands of clients; their histories are short. N are the
entries of all histories, one after another. An item that stands twice in a history has one row, the
first; the other stays as it began.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit.core.capabilities import keeps_history_rows
from tacit.core.direct import DirectMethod
from tacit.core.types import Init, Params, Task
from tacit.data.views import Lists, TrainView


def leaves_by_history(method: DirectMethod) -> frozenset[str]:
    """The private leaves of a method that are kept as rows of histories."""
    return method.history_leaves if keeps_history_rows(method) else frozenset()


def shape_in_state(method: DirectMethod, train: TrainView) -> dict[str, tuple[int, ...]]:
    """The private leaves of all clients as a state holds them: (U, ...), or (N, ...) by history."""
    declared = method.private(Task(train.n_users, train.n_items))
    rows = leaves_by_history(method)
    return {
        leaf: (len(train.positives.item_N), *init.shape[1:])
        if leaf in rows
        else (train.n_users, *init.shape)
        for leaf, init in declared.items()
    }


def first_rows(init: Init, first: Tensor, positives: Lists) -> Tensor:
    """The rows of all histories at the beginning; `first` is the table that all begin with.

    >>> lists = Lists(np.array([0, 1, 3]), np.array([2, 0, 2]))
    >>> first = torch.tensor([[5.0], [6.0], [7.0]])
    >>> first_rows(Init((3, 1), "uniform", same=True), first, lists).flatten().tolist()
    [7.0, 5.0, 7.0]
    """
    if not init.same:
        raise ValueError("a leaf that is kept by history must begin the same for all clients")
    return first[torch.from_numpy(positives.item_N)]


def rows_of(positives: Lists, user_B: np.ndarray) -> np.ndarray:
    """Where the entries of some histories stand among all entries.

    >>> rows_of(Lists(np.array([0, 1, 3]), np.array([9, 8, 7])), np.array([1, 0])).tolist()
    [1, 2, 0]
    """
    return Lists(positives.start_U1, np.arange(len(positives.item_N))).take(user_B).item_N


def histories_taken(
    method: DirectMethod, train: TrainView, private: Params, user_B: np.ndarray
) -> Params:
    """The private leaves of all users, but of those kept by history some users' rows alone."""
    rows = leaves_by_history(method)
    if not rows:
        return private
    row_R = torch.from_numpy(rows_of(train.positives, user_B))
    return {leaf: value[row_R] if leaf in rows else value for leaf, value in private.items()}


def taken(method: DirectMethod, train: TrainView, private: Params, user_B: np.ndarray) -> Params:
    """The private leaves of some users as the method declares them, stacked; rows outside of a
    history are zeros, which nobody reads."""
    rows, where = leaves_by_history(method), torch.from_numpy(np.array(user_B, dtype=np.int64))
    return {
        leaf: _tables(value, train, user_B) if leaf in rows else value[where]
        for leaf, value in private.items()
    }


def put(
    method: DirectMethod, train: TrainView, private: Params, user_B: np.ndarray, kept: Params
) -> None:
    """Write what some users keep after a round back to the leaves of all."""
    rows, where = leaves_by_history(method), torch.from_numpy(np.array(user_B, dtype=np.int64))
    for leaf, value in private.items():
        new = kept[leaf].to(value.dtype)
        if leaf not in rows:
            value[where] = new
            continue
        for table_ID, user in zip(new, user_B, strict=True):
            item_K, row_K = _first_times(train.positives, int(user))
            value[torch.from_numpy(row_K)] = table_ID[torch.from_numpy(item_K)]


def _tables(row_ND: Tensor, train: TrainView, user_B: np.ndarray) -> Tensor:
    table_BID = row_ND.new_zeros(len(user_B), train.n_items, *row_ND.shape[1:])
    for table_ID, user in zip(table_BID, user_B, strict=True):
        item_K, row_K = _first_times(train.positives, int(user))
        table_ID[torch.from_numpy(item_K)] = row_ND[torch.from_numpy(row_K)]
    return table_BID


def _first_times(positives: Lists, user: int) -> tuple[np.ndarray, np.ndarray]:
    """The items of a history, and the rows of all histories where each stands first."""
    item_K, place_K = np.unique(positives[user], return_index=True)
    return item_K, positives.start_U1[user] + place_K
