"""How guidance that a kernel claims is handed to it: one compiled pass per client."""

from __future__ import annotations

import numba
import numpy as np

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.views import TrainView
from tacit.engines.claims import linear_leaves
from tacit.engines.device import each_chunk
from tacit.engines.flat_network import FlatNetwork
from tacit.engines.kernels.gates_cpu import guide_linear
from tacit.engines.kernels.perceptron_gates_cpu import guide_perceptron_chunk
from tacit.engines.participation import everybody
from tacit.engines.state import State
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.objectives import PROBABILITY_FLOOR, BinaryCrossEntropy


def fused_guidance(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    samples_U: np.ndarray,
    *,
    seed: int,
    threads: int,
) -> None:
    """Gates are trained and tables mixed, for everybody, in place."""
    method, local, sync = algorithm.method, algorithm.method.local, algorithm.method.sync
    assert isinstance(sync, AdaptiveGuidance)
    assert isinstance(method.objective, BinaryCrossEntropy)
    round_number, n_items = state.round_number + 1, algorithm.task.n_items
    own = state.private[OWN_ITEMS].numpy()
    user_P = everybody(train).user_P
    largest = min(local.batch, int(samples_U[user_P].max(initial=1)))
    chunks = min(64, len(user_P))
    common = (
        np.linspace(0, len(user_P), chunks + 1).astype(np.int64),
        user_P,
        samples_U[user_P],
        seed,
        round_number,
        method.sampling.redraw_code,
        train.user_key_U,
        train.positives.start_U1,
        train.positives.item_N,
        train.hidden_from_negatives.start_U1,
        train.hidden_from_negatives.item_N,
        n_items,
        method.sampling.negatives,
        sync.epochs,
        local.batch,
        own.dtype.type(sync.gate_optimiser.rate_at(round_number, n_items)),
        sync.tolerance,
        own.dtype.type(sync.beta),
        np.array([0.0, 1.0, PROBABILITY_FLOOR], dtype=own.dtype),
        (1.0 / np.maximum(np.arange(largest + 1), 1)).astype(own.dtype),
        method.objective.on == "probabilities",
        state.shared[ITEMS].numpy(),
        own,
        state.private["gate.w"].numpy(),
        state.private["gate.b"].numpy(),
    )
    network = FlatNetwork.of(method.backbone)
    if network is None:
        linear = linear_leaves(method.backbone)
        assert linear is not None
        vector, bias = linear
        bias_U = state.private[bias].numpy() if bias else np.zeros(1, own.dtype)
        cores: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        numba.set_num_threads(min(threads, cores))
        guide_linear(*common, state.private[vector].numpy(), bias_U, bias is not None)
    else:
        vector_UD = network.vectors(state.private, own)
        net_PN = network.read(state, user_P)
        scorer = (network.widths, net_PN, vector_UD, network.has_user)
        each_chunk(guide_perceptron_chunk, chunks, threads, *common, *scorer)
