"""A person who joined after training, for methods that speak for themselves."""

from __future__ import annotations

import numpy as np
import torch

from tacit.core.direct import DirectMethod
from tacit.core.types import Params
from tacit.data.views import Lists, TrainView
from tacit.engines.direct import DirectEngine
from tacit.engines.direct_scoring import DirectScorer
from tacit.engines.participation import Participants

NO_PLACE = -1


def direct_newcomer_scores(
    method: DirectMethod,
    shared: Params,
    history: np.ndarray,
    *,
    n_items: int,
    name: int,
    seed: int,
    rounds: int,
) -> np.ndarray:
    """Logits over the catalogue for one new history, after `rounds` local rounds; nothing is sent.

    The server is told no place for the newcomer, and its leaves stay as they are.
    """
    train = TrainView(
        n_items,
        Lists(np.array([0, len(history)]), np.ascontiguousarray(history, dtype=np.int64)),
        np.array([name], dtype=np.uint64),
        Lists.empty(1),
    )
    dtype = next((leaf.dtype for leaf in shared.values()), torch.float32)
    engine = DirectEngine(dtype, block=1)
    state = engine.start(method, train, seed)
    state.shared = shared
    silent = Participants(np.array([0]), np.array([False]))  # plays, and its upload never comes
    for _ in range(rounds):
        engine.clients(method, train, state, silent, seed, place=NO_PLACE)
        state.round_number += 1
    return DirectScorer(method, train, state, place=NO_PLACE)(np.array([0]))[0]
