"""Models that score a pair (user, item) from a row of each, trained on all histories at once.

Samples are everybody's positives and 4 negatives each, drawn anew in every epoch and shuffled
across users; the loss is the mean binary cross-entropy on logits of a mini-batch. Only the rows
that a batch reads move (`central/training.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.central.samples import PairSamples, draw_pairs
from tacit.central.training import RowModel, require_at_least_one
from tacit.core.optim import Adam, Sgd, without_optimizer_state
from tacit.core.types import Params
from tacit.data.sampling import Sampling
from tacit.data.views import TrainView
from tacit.parts.objectives import BinaryCrossEntropy

TABLE_SCALE = 0.01  # standard deviation of all tables at the start
_PAIRS_AT_ONCE = 1 << 14  # scored together, so that what hidden layers make of them stays in cache


@dataclass(frozen=True)
class PairModel(RowModel[PairSamples]):
    """What central models of pairs have in common; a subclass declares its parameters and its
    logit."""

    dim: int = 32
    batch: int = 256
    sampling: Sampling = Sampling()
    optimiser: Adam | Sgd = Adam(lifetime="persistent")

    def __post_init__(self) -> None:
        require_at_least_one(self, "dim", "batch")

    @abstractmethod
    def logit(self, p: Params) -> Tensor:
        """Logits of pairs; `p` holds the tower's parameters, and rows whose leading axes
        broadcast."""

    def draw(self, train: TrainView, seed: int, number: int) -> PairSamples:
        return draw_pairs(train, self.sampling, seed=seed, number=number)

    def batch_loss(self, p: Params, batch: PairSamples, divisor: int) -> Tensor:
        logit_B = self.logit(p)
        weight_B = torch.full_like(logit_B, 1.0 / divisor)
        label_B = torch.from_numpy(batch.label_N).to(logit_B.dtype)
        return BinaryCrossEntropy().loss(logit_B, label_B, weight_B)

    def score_rows(self, parameters: Params, rows: Params) -> np.ndarray:
        """(B, I) logits of B users given by their rows, some users at a time."""
        around = self.unpacked(without_optimizer_state(parameters))
        around |= {name: parameters[name].unsqueeze(0) for name in self.item_tables()}
        n_users = len(next(iter(rows.values())))
        size = max(1, _PAIRS_AT_ONCE // self.n_items(parameters))
        blocks = []
        for low in range(0, n_users, size):
            some = {name: row_BD[low : low + size].unsqueeze(1) for name, row_BD in rows.items()}
            blocks.append(self.logit(around | some))
        return torch.cat(blocks).numpy()
