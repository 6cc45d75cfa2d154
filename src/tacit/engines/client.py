"""Everything that one client ranks with, in one place."""

from __future__ import annotations

import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, Params
from tacit.engines.past import with_past
from tacit.engines.state import State


def client_leaves(
    algorithm: Algorithm, state: State, user: int, item_H: np.ndarray | None = None
) -> Params:
    """Shared and own leaves of one client, whole tables, with content; `item_H` is the client's own
    history, for items that look different to everybody.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> state = State({"items": torch.ones(3, 2)}, {"user": torch.ones(4, 2)})
    >>> leaves = client_leaves(compose(fedmf(dim=2), Task(4, 3)), state, 0)
    >>> {name: tuple(leaf.shape) for name, leaf in leaves.items()}
    {'items': (3, 2), 'user': (2,)}
    """
    p: Params = {**state.shared}
    p |= {name: leaf[user] for name, leaf in state.private.items()}
    if state.tuned is not None and state.broadcast is not None:
        began = state.broadcast if state.fresh_U[user] else state.shared[ITEMS]
        item_R, row_RD = state.tuned.of(user)
        p[ITEMS] = began.clone()
        p[ITEMS][torch.from_numpy(item_R.astype(np.int64))] = row_RD
    return with_past(algorithm, p, np.zeros(0, np.int64) if item_H is None else item_H)
