"""Rows for items that came after a run, so that nodes can rank them.

The generator of the selected round makes them from the content of the items. A table over items
that nobody can make rows for refuses new ones.
"""

from __future__ import annotations

import numpy as np
import torch

from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.rules import Offer
from tacit.core.types import ITEMS, Task
from tacit.engines.cold import ColdServer
from tacit.engines.state import State
from tacit.errors import TacitError, shown
from tacit.parts.sync import GUIDE

GENERATED = (ITEMS, GUIDE)  # the second is a table of generated rows already


def with_new_items(planned: PlannedRun, cold: ColdServer, state: State, offer: Offer) -> State:
    """What a server holds, on a later catalogue that begins with the items of the run's."""
    new_C = _new(planned.offer, offer)
    row_CD = _rows(cold, state, offer, new_C)
    task = planned.algorithm.task
    wider = planned.experiment.method.algorithm(
        Task(task.n_users, offer.n_items, offer.content, task.releases)
    )
    shared = {}
    for name, value in state.shared.items():
        grows = tuple(wider.shared[name].shape) != tuple(value.shape)
        if grows and name not in GENERATED:
            raise TacitError(
                f"{shown(name)} has no row for new items, so they cannot be added to this run; "
                "begin another one with the later catalogue."
            )
        shared[name] = torch.cat([value, row_CD]) if grows else value
    return State(shared, {}, state.round_number, server=state.server)


def _new(before: Offer, after: Offer) -> np.ndarray:
    known = before.catalogue.ids
    if after.catalogue.ids[: len(known)] != known or after.n_items == len(known):
        raise TacitError(
            "A later catalogue begins with all items of the one before it, and has others; add "
            "new items at its end."
        )
    return np.arange(len(known), after.n_items)


def _rows(cold: ColdServer, state: State, offer: Offer, new_C: np.ndarray) -> torch.Tensor:
    feature_CF = torch.from_numpy(cold.fitted.rows(offer.content.take(new_C), len(new_C)))
    row_CD = cold.made(state, feature_CF, offer.item_key_I[new_C])
    finite_C = torch.isfinite(row_CD).all(dim=1).numpy()
    if not finite_C.all():
        first = offer.catalogue.ids[int(new_C[~finite_C][0])]
        raise TacitError(
            f"The generator made no finite row for item {shown(first)}; train it with a smaller "
            "rate."
        )
    return row_CD
