"""Scores of whole catalogues for blocks of users, for methods that speak for themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from tacit.core.capabilities import plays_crowds
from tacit.core.direct import ClientData, DirectMethod
from tacit.core.types import Params
from tacit.data.views import TrainView
from tacit.engines.direct_data import WIDEST_BLOCK, histories, one_client
from tacit.engines.history_rows import histories_taken, taken
from tacit.engines.state import State


@dataclass(frozen=True, eq=False)
class DirectScorer:
    """users (B,) -> logits (B, I)."""

    method: DirectMethod
    train: TrainView
    state: State
    block: int = WIDEST_BLOCK
    place: int | None = None

    @torch.no_grad()
    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        method, together = self.method, self.block > 1 and self.place is None
        if together and plays_crowds(method):
            history = self.train.positives.take(user_B)
            private = histories_taken(self.method, self.train, self.state.private, user_B)
            return method.score_crowd(self.state.shared, private, user_B, history).numpy()
        parts = [
            self._scores(user_B[begin : begin + self.block])
            for begin in range(0, len(user_B), self.block)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _scores(self, user_B: np.ndarray) -> np.ndarray:
        shared = self.state.shared
        dtype = next((leaf.dtype for leaf in shared.values()), torch.float32)
        columns = histories(self.train, user_B, dtype, place=self.place)
        private = taken(self.method, self.train, self.state.private, user_B)

        def score(own: Params, data: ClientData) -> Tensor:
            return self.method.score(self.method.broadcast(shared, data.user), own, data)

        if len(user_B) == 1:
            own = {leaf: value[0] for leaf, value in private.items()}
            return score(own, one_client(columns))[None].numpy()
        mapped: Tensor = vmap(lambda own, columns: score(own, ClientData(*columns)))(
            private, columns
        )
        return mapped.numpy()
