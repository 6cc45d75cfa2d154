"""What a node's people keep of a run between rounds: arrays of a box, and a state made of them.

Histories and catalogues grow between two rounds. Rows that belong to items of a history are found
again by person and item. Tables over all items get rows for new items: those of the global table
where a table began as that one, first values otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import Algorithm
from tacit.core.types import ITEMS, Params
from tacit.data.views import Lists, TrainView
from tacit.engines.state import State, initial_state
from tacit.engines.tuned import TunedRows

PRIVATE, MOMENTS, TUNED, HISTORY = "private.", "moments.", "tuned.", "history."
BROADCAST = "broadcast"


def arrays_of(state: State, train: TrainView) -> dict[str, np.ndarray]:
    """All that has to be kept of a state of a node's people. Shared parameters are not kept: they
    come with every request."""
    found = {PRIVATE + name: value.numpy() for name, value in state.private.items()}
    found |= {MOMENTS + name: value.numpy() for name, value in state.optimizer.items()}
    found[f"{HISTORY}start"] = train.positives.start_U1
    found[f"{HISTORY}item"] = train.positives.item_N
    if state.broadcast is not None:
        found[BROADCAST] = state.broadcast.numpy()
    if state.tuned is not None:
        rows = [state.tuned.of(user) for user in range(train.n_users)]
        found[f"{TUNED}count"] = state.tuned.count_U
        found[f"{TUNED}item"] = np.concatenate([item_R for item_R, _ in rows])
        found[f"{TUNED}value"] = torch.cat([row_RD for _, row_RD in rows]).numpy()
    return found


def keeps_something(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether people keep more than their histories between rounds.

    >>> keeps_something({"history.item": np.zeros(2)})
    False
    """
    return any(not name.startswith(HISTORY) for name in arrays)


def state_of(
    arrays: Mapping[str, np.ndarray],
    algorithm: Algorithm,
    train: TrainView,
    shared: Params,
    seed: int,
    dtype: torch.dtype,
) -> State:
    """The state that was kept, for the histories and the catalogue of now; without any, every
    parameter is at its first value."""
    state = initial_state(algorithm, train, seed, dtype)
    state.shared = dict(shared)
    if not arrays:
        return state
    then = Lists(arrays[f"{HISTORY}start"], arrays[f"{HISTORY}item"])
    for name, first in state.private.items():
        old = torch.from_numpy(arrays[PRIVATE + name].copy())
        if name in algorithm.history_parameters:
            state.private[name] = _rows_again(first, old, then, train.positives)
        else:
            like = algorithm.private[name].like
            state.private[name] = _grown(first, old, shared.get(like or ""))
    for name, first in state.optimizer.items():
        old = torch.from_numpy(arrays[MOMENTS + name].copy())
        state.optimizer[name] = _grown(first, old, None)
    if state.broadcast is not None:
        old = torch.from_numpy(arrays[BROADCAST].copy())
        state.broadcast = _grown(shared[ITEMS].clone(), old, None)
    if state.tuned is not None:
        state.tuned = _tuned_again(arrays, state.tuned)
    return state


def _grown(first: Tensor, old: Tensor, table: Tensor | None) -> Tensor:
    """What was kept, with rows for items that joined: of the global table, or first values."""
    if first.shape == old.shape:
        return old
    if table is not None:
        first = table.expand(first.shape).clone()
    first[tuple(slice(0, size) for size in old.shape)] = old
    return first


def _rows_again(first_N: Tensor, old_N: Tensor, then: Lists, now: Lists) -> Tensor:
    """Rows by entry of a history, found again by person and item; an item that stands twice has
    its row where it stands first."""
    for user in range(len(now)):
        item_K, place_K = np.unique(now[user], return_index=True)
        before_K, was_K = np.unique(then[user], return_index=True)
        _, here, there = np.intersect1d(item_K, before_K, return_indices=True)
        to = torch.from_numpy(now.start_U1[user] + place_K[here])
        first_N[to] = old_N[torch.from_numpy(then.start_U1[user] + was_K[there])]
    return first_N


def _tuned_again(arrays: Mapping[str, np.ndarray], first: TunedRows) -> TunedRows:
    """The rows that each person last tuned, with room for those of the next round."""
    count_U = arrays[f"{TUNED}count"]
    room_U = np.maximum(first.room_U, count_U)
    tuned = TunedRows.of_nobody(room_U, first.value_CD.shape[1], first.value_CD.dtype)
    tuned.make_room(np.flatnonzero(count_U))
    end_U = np.cumsum(count_U)
    value_CD = torch.from_numpy(arrays[f"{TUNED}value"].copy())
    for user, (end, count) in enumerate(zip(end_U.tolist(), count_U.tolist(), strict=True)):
        own = slice(end - count, end)
        if count:
            tuned.write(user, arrays[f"{TUNED}item"][own], value_CD[own])
    return tuned
