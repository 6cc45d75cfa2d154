"""When the fused kernel applies, and how a composed method is handed to it."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch

from tacit.channel.clip import Clip
from tacit.core.compose import Algorithm
from tacit.core.optim import Sgd
from tacit.core.parts import Penalised, TablePenalised
from tacit.core.types import ITEMS, Phase
from tacit.data.views import TrainView
from tacit.engines.base import Totals
from tacit.engines.chunks import each_chunk
from tacit.engines.flat_network import FlatNetwork
from tacit.engines.fused_pull import Pull, why_not_pull
from tacit.engines.fused_views import views_round, why_not_views
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
from tacit.engines.state import State
from tacit.engines.tuned import kernel_arguments
from tacit.items.id_only import IdOnly
from tacit.items.received import Received
from tacit.local.alternate import Alternate
from tacit.local.joint import Joint
from tacit.local.reconstruct import Reconstruct
from tacit.objectives.bce import PROBABILITY_FLOOR, BinaryCrossEntropy
from tacit.sync.anchored import Anchored


def why_not_fused(algorithm: Algorithm, device: str) -> str | None:
    """The first reason why the fused kernel cannot run this method; None if it can.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedncf
    >>> why_not_fused(compose(fedncf(dim=4), Task(2, 3)), "cuda")
    'the fused kernel runs on the CPU'
    """
    method, local = algorithm.method, algorithm.method.local
    clips = [link for link in method.channel if link.order is not None]
    if device != "cpu":
        return "the fused kernel runs on the CPU"
    if isinstance(method.items, Received):
        return why_not_views(algorithm)
    network = FlatNetwork.of(method.backbone)
    if method.backbone.linear is None and network is None:
        return (
            f"{type(method.backbone).__name__} is neither linear in the item row nor a perceptron"
        )
    if network is not None and network.is_shared and algorithm.row_leaves != (ITEMS,):
        return "a shared perceptron goes with the shared item table only"
    if not isinstance(method.items, IdOnly):
        return f"{type(method.items).__name__} encodes more than the id"
    if not isinstance(local, (Joint, Alternate, Reconstruct)):
        return f"{type(local).__name__} has phases of its own"
    if isinstance(method.sync, Anchored):
        reason = why_not_pull(algorithm)
        if reason is not None:
            return reason
    elif isinstance(method.sync, Penalised | TablePenalised) or len(algorithm.row_leaves) > 1:
        return f"{type(method.sync).__name__} adds to the loss or to the row"
    for name, optimiser in (("model", local.model), ("items", local.items)):
        if not isinstance(optimiser, Sgd) or not optimiser.stateless:
            return f"local.{name} is not plain gradient descent"
    if not isinstance(method.objective, BinaryCrossEntropy):
        return f"the loss is {type(method.objective).__name__}"
    if len(clips) > 1 or any(not isinstance(link, Clip) for link in clips):
        return "the channel has more than one clip"
    return None


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
    if isinstance(algorithm.method.items, Received):
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
    clip = next((link for link in method.channel if isinstance(link, Clip)), None)
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
        assert method.backbone.linear is not None
        vector_name, bias_name = method.backbone.linear
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
