"""Blocks of clients whose descent is written down, for rules that the fused kernels do not know.

Draws, state and uploads are those of any block; only the steps between them are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, OWN_ITEMS, Params
from tacit.data.batches import BlockDraws
from tacit.engines.claims import block_claim, linear_leaves
from tacit.engines.flat_network import FlatNetwork
from tacit.engines.kernels.additive_cpu import additive_descent
from tacit.engines.kernels.contrast_cpu import contrast_descent
from tacit.engines.kernels.contrast_slope import Contrast
from tacit.engines.kernels.exponential import Exponential
from tacit.engines.kernels.pulled_cpu import pulled_descent
from tacit.engines.state import State
from tacit.parts.contrast import LABEL, NORM_FLOOR, SAMPLE, GroupKept
from tacit.parts.objectives import PROBABILITY_FLOOR, BinaryCrossEntropy
from tacit.parts.sync import GUIDE, Additive, Proximal


@dataclass(frozen=True, eq=False)
class Block:
    """What a block of clients trains with; `p` and `tables` are written in place.

    `tables` are the rows that each client touches, or whole tables of the population, of which the
    block's are those of `user_B`.
    """

    algorithm: Algorithm
    p: Params
    tables: Params
    shared: Params
    user_B: np.ndarray
    draws: BlockDraws
    round_number: int

    @property
    def rates(self) -> tuple[np.floating, np.floating]:
        """Of the model and of the rows, in the tables' own precision."""
        local, n_items = self.algorithm.method.local, self.algorithm.task.n_items
        return (
            self.scalar(local.model.rate_at(self.round_number, n_items)),
            self.scalar(local.items.rate_at(self.round_number, n_items)),
        )

    @property
    def constants(self) -> np.ndarray:
        """Numbers of the tables' own kind: numba computes float32 with an integer in float64."""
        return np.array([0.0, 1.0, PROBABILITY_FLOOR], dtype=self.draws.weight_SBW.dtype)

    @property
    def on_probabilities(self) -> bool:
        objective = self.algorithm.method.objective
        assert isinstance(objective, BinaryCrossEntropy)
        return objective.on == "probabilities"

    @property
    def scorer(self) -> tuple[np.ndarray, np.ndarray]:
        """Vectors and biases of linear scorers."""
        linear = linear_leaves(self.algorithm.method.backbone)
        assert linear is not None
        vector, bias = linear
        assert bias is not None
        return self.p[vector].numpy(), self.p[bias].numpy()

    def scalar(self, value: float) -> np.floating:
        kind: np.floating = self.draws.weight_SBW.dtype.type(value)
        return kind


def descent_of(algorithm: Algorithm, device: str) -> Callable[[Block], float] | None:
    """The compiled descent of a method's clients, which returns the sum of their losses; None where
    the general one runs.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedrap, pfedrec
    >>> descent_of(compose(fedrap(dim=4), Task(2, 3)), "cpu").__name__
    '_additive'
    >>> descent_of(compose(pfedrec(dim=4), Task(2, 3)), "cpu") is None
    True
    """
    kernel = block_claim(algorithm, device).kernel
    return None if kernel is None else _DESCENTS[kernel]


def _additive(block: Block) -> float:
    method, draws = block.algorithm.method, block.draws
    assert isinstance(method.sync, Additive)
    vector_BD, bias_B = block.scorer
    weight = method.sync.factor(block.round_number)
    loss: float = additive_descent(
        draws.row_TSBW,
        draws.label_TSBW,
        draws.weight_SBW,
        draws.samples_B,
        block.tables[OWN_ITEMS].numpy(),
        block.tables[ITEMS].numpy(),
        vector_BD,
        bias_B,
        *block.rates,
        block.scalar(weight * method.sync.apart),
        block.scalar(weight * method.sync.sparse if method.sync.norm == "l1" else 0.0),
        block.on_probabilities,
        block.constants,
    )
    return loss


def _drawn_together(block: Block) -> float:
    method, draws = block.algorithm.method, block.draws
    assert isinstance(method.sync, GroupKept)
    dtype, own_UID = draws.weight_SBW.dtype, block.tables[OWN_ITEMS].numpy()
    label_I = block.shared[LABEL].numpy().astype(np.int64)
    item_S = np.arange(len(label_I))
    if SAMPLE in block.shared:
        item_S = block.shared[SAMPLE].numpy().astype(np.int64)
    contrast = Contrast.of(item_S, label_I[item_S], own_UID.shape[2], dtype)
    limits = np.array([np.finfo(dtype).tiny, NORM_FLOOR], dtype)
    loss: float = contrast_descent(
        draws.row_TSBW,
        draws.label_TSBW,
        draws.weight_SBW,
        draws.samples_B,
        block.user_B,
        own_UID,
        *block.scorer,
        *block.rates,
        block.on_probabilities,
        np.concatenate([block.constants, limits]),
        contrast,
        bool(contrast.positives_S.any()),
        block.scalar(method.sync.factor / len(item_S)),
        block.scalar(1 / method.sync.temperature),
        Exponential.of(dtype),
    )
    return loss


def _pulled(block: Block) -> float:
    method, draws = block.algorithm.method, block.draws
    network = FlatNetwork.of(method.backbone)
    assert isinstance(method.sync, Proximal)
    assert network is not None
    net_BN = network.read(State(block.shared, block.p), np.arange(len(draws.samples_B)))
    # the slope of strength · mean (P − r)² is 2 · strength · (P − r) / (I·D)
    table = block.tables[OWN_ITEMS]
    once = 2 * method.sync.strength * float(block.rates[1]) / (table.shape[1] * table.shape[2])
    steps = np.arange(1 + draws.row_TSBW.shape[0] * draws.row_TSBW.shape[1])
    loss: float = pulled_descent(
        draws.row_TSBW,
        draws.label_TSBW,
        draws.weight_SBW,
        draws.samples_B,
        block.user_B,
        table.numpy(),
        block.tables[GUIDE].numpy(),
        network.widths,
        net_BN,
        network.vectors(block.p, net_BN),
        network.has_user,
        *block.rates,
        (1 - (1 - once) ** steps).astype(net_BN.dtype),
        block.on_probabilities,
        block.constants,
    )
    for leaf, value_BN in network.leaves(net_BN).items():
        block.p[leaf].copy_(torch.from_numpy(value_BN))
    return loss


_DESCENTS: dict[str, Callable[[Block], float]] = {
    "additive": _additive,
    "contrast": _drawn_together,
    "pulled": _pulled,
}
