"""How a composed method that a fused kernel claims is handed to it."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, Phase
from tacit.data.views import TrainView
from tacit.engines.base import Totals
from tacit.engines.claims import linear_leaves
from tacit.engines.device import each_chunk
from tacit.engines.flat_network import FlatNetwork
from tacit.engines.fused_pull import Pull
from tacit.engines.fused_views import views_round
from tacit.engines.kernels.linear_cpu import (
    ALTERNATE,
    ITEMS_ONLY,
    JOINT,
    MODEL_ONLY,
    linear_rounds,
)
from tacit.engines.kernels.perceptron_cpu import perceptron_chunk
from tacit.engines.participation import Participants
from tacit.engines.queue import Queue, in_order
from tacit.engines.state import State, kernel_arguments
from tacit.parts.channel import Clip
from tacit.parts.items import Received
from tacit.parts.objectives import PROBABILITY_FLOOR, BinaryCrossEntropy


def _mode(phases: tuple[Phase, ...]) -> int:
    """What the kernel calls the phases of a batch."""
    if len(phases) == 2:
        return ALTERNATE
    return {("model", "items"): JOINT, ("model",): MODEL_ONLY, ("items",): ITEMS_ONLY}[
        phases[0].groups
    ]


def fused_round(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    participants: Participants,
    samples_U: np.ndarray,
    *,
    seed: int,
    threads: int,
) -> Totals:
    """One round of all participants in the kernel; returns the sums for the server."""
    if type(algorithm.method.items) is Received:
        return views_round(
            algorithm, train, state, participants, samples_U, seed=seed, threads=threads
        )
    method, local = algorithm.method, algorithm.method.local
    round_number, n_items = state.round_number + 1, algorithm.task.n_items
    queue = Queue.of(algorithm, train, participants, samples_U)
    user_P, chunks, width = queue.user_P, queue.chunks, method.backbone.dim
    (row_leaf,) = algorithm.row_leaves
    has_own = row_leaf != ITEMS
    kind = (state.private if has_own else state.shared)[row_leaf].numpy().dtype
    table = np.zeros((1, 1), kind) if has_own else state.shared[ITEMS].numpy()
    own = state.private[row_leaf].numpy() if has_own else table[None]
    total_CID = np.zeros((1, 1, 1) if has_own else (chunks, n_items, width))
    loss_C = np.zeros(chunks)
    clip = next((link for link in method.channel if type(link) is Clip), None)
    pull = Pull.of(algorithm, state, queue)
    if pull is not None:
        total_CID[0] = pull.drift(queue.weight_P)  # kernels add what the samples change
    assert isinstance(method.objective, BinaryCrossEntropy)
    common: tuple[Any, ...] = (
        *queue.drawing(seed, round_number),
        kind.type(local.model.rate_at(round_number, n_items)),
        kind.type(local.items.rate_at(round_number, n_items)),
        np.array([0.0, 1.0, PROBABILITY_FLOOR], dtype=kind),
        queue.shares(kind),
        np.array([_mode(local.phases(epoch)) for epoch in range(local.epochs)]),
        kind.type(local.gradient_clip or 0.0),
        method.objective.on == "probabilities",
        0 if clip is None else clip.order,
        0.0 if clip is None else clip.bound,
        table,
        own,
        has_own,
        None if pull is None else pull.guide_ID,
        None if pull is None else pull.share_K,
    )
    change: dict[str, np.ndarray] = {}
    network = FlatNetwork.of(method.backbone)
    if network is None:
        linear = linear_leaves(method.backbone)
        assert linear is not None
        vector_name, bias_name = linear
        bias_U = state.private[bias_name].numpy() if bias_name else np.zeros(1, kind)
        scorer = (state.private[vector_name].numpy(), bias_U, bias_name is not None)
        cores: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        numba.set_num_threads(min(threads, cores))
        tuned = kernel_arguments(state.tuned, kind)
        linear_rounds(*(*common, *scorer, *tuned, total_CID, loss_C))
    else:
        net_PN = network.read(state, user_P)
        total_CN = np.zeros((chunks, net_PN.shape[1]))
        each_chunk(
            perceptron_chunk,
            chunks,
            threads,
            *common,
            network.widths,
            net_PN,
            network.is_shared,
            network.vectors(state.private, net_PN),
            network.has_user,
            *kernel_arguments(state.tuned, kind),
            total_CID,
            total_CN,
            loss_C,
        )
        if network.is_shared:
            for leaf, total in network.leaves(in_order(total_CN)[None]).items():
                change[leaf] = total[0]
        else:
            for leaf, value in network.leaves(net_PN).items():
                state.private[leaf][torch.from_numpy(user_P)] = torch.from_numpy(value)
    if not has_own:
        change[ITEMS] = in_order(total_CID)
    totals = queue.totals(loss_C)
    for leaf, total in change.items():
        totals.change[leaf] += total
    return totals
