"""IFedRec's pull in the fused kernels: clients hold the rows they read, the others drift alike.

A step of the pull alone takes a row a fixed part of the way to the guide, so k of them are one step
of another length. Kernels add up how far a client's rows end from where the pull alone takes them;
where it takes them is the same for all rows of the table, and is added for all clients at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS
from tacit.engines.queue import Queue
from tacit.engines.state import State
from tacit.parts.sync import GUIDE, Anchored


@dataclass(frozen=True, eq=False)
class Pull:
    """The guide, and the part of the way to it that k steps of the pull alone make (K of them)."""

    table_ID: np.ndarray
    guide_ID: np.ndarray
    share_K: np.ndarray
    steps_P: np.ndarray  # how often each participant steps its items

    @classmethod
    def of(cls, algorithm: Algorithm, state: State, queue: Queue) -> Pull | None:
        """None where the method has no such pull."""
        sync, local = algorithm.method.sync, algorithm.method.local
        if type(sync) is not Anchored:
            return None
        table_ID = state.shared[ITEMS].numpy()
        guide_ID = state.shared[GUIDE].to(state.shared[ITEMS]).contiguous().numpy()
        moving = [
            any("items" in phase.groups for phase in local.phases(e)) for e in range(local.epochs)
        ]
        steps_P = sum(moving) * -(-queue.samples_P // local.batch)
        # the slope of strength · mean (P − R)² is 2 · strength · (P − R) / (I·D)
        rate = local.items.rate_at(state.round_number + 1, algorithm.task.n_items)
        once = 2 * sync.strength * rate / table_ID.size
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is said where it is ranked
            share_K = 1 - (1 - once) ** np.arange(2 + steps_P.max(initial=0))
            share_K = share_K.astype(table_ID.dtype)
        return cls(table_ID, guide_ID, share_K, steps_P)

    def drift(self, weight_P: np.ndarray) -> np.ndarray:
        """What the pull alone does to the sum of the clients' weighted changes, on every row.

        >>> once = Pull(np.zeros((1, 1)), np.full((1, 1), 2.0), np.array([0.0, 0.5]), np.array([1]))
        >>> once.drift(np.array([3.0])).tolist()
        [[3.0]]
        """
        with np.errstate(over="ignore", invalid="ignore"):
            part = (weight_P * self.share_K[self.steps_P].astype(np.float64)).sum()
            drift_ID: np.ndarray = part * (self.guide_ID - self.table_ID).astype(np.float64)
        return drift_ID
