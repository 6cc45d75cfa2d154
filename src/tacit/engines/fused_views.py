"""The fused kernel for clients that train on views of items which the server makes."""

from __future__ import annotations

import numpy as np

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS
from tacit.data.views import TrainView
from tacit.engines.base import Totals
from tacit.engines.claims import linear_leaves
from tacit.engines.device import each_chunk
from tacit.engines.flat_network import Router
from tacit.engines.kernels.views_cpu import views_chunk
from tacit.engines.participation import Participants
from tacit.engines.queue import Queue, in_order
from tacit.engines.state import State
from tacit.parts.local import Alternate, Held
from tacit.parts.objectives import PROBABILITY_FLOOR, BinaryCrossEntropy


def views_round(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    participants: Participants,
    samples_U: np.ndarray,
    *,
    seed: int,
    threads: int,
) -> Totals:
    """One round of all participants on the views in `state.shared`; returns their gradients."""
    method, local = algorithm.method, algorithm.method.local
    round_number = state.round_number + 1
    queue = Queue.of(algorithm, train, participants, samples_U)
    router = Router.of(method.items)
    assert router is not None
    assert isinstance(method.objective, BinaryCrossEntropy)
    assert isinstance(local, Held)
    linear = linear_leaves(method.backbone)
    assert linear is not None
    vector, bias = linear
    view_IW = state.shared[ITEMS].contiguous().numpy()
    kind = view_IW.dtype
    total_CIW = np.zeros((queue.chunks, *view_IW.shape))
    loss_C = np.zeros(queue.chunks)
    each_chunk(
        views_chunk,
        queue.chunks,
        threads,
        *queue.drawing(seed, round_number),
        kind.type(local.model.rate_at(round_number, algorithm.task.n_items)),
        np.array([0.0, 1.0, PROBABILITY_FLOOR], dtype=kind),
        queue.shares(kind),
        isinstance(local.inner, Alternate),
        local.sends == "last_gradient",
        method.objective.on == "probabilities",
        view_IW,
        state.private[vector].numpy(),
        state.private[bias].numpy() if bias else np.zeros(1, kind),
        bias is not None,
        router.softmaxes,
        *router.leaves({**state.shared, **state.private}, view_IW.shape[1]),
        router.exists,
        total_CIW,
        loss_C,
    )
    totals = queue.totals(loss_C)
    totals.change[ITEMS] += in_order(total_CIW)
    return totals
