"""Scores of whole catalogues for blocks of users, with the table each client really ranks with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.func import vmap

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, Params
from tacit.engines.kernels.linear_cpu import overlay_linear
from tacit.engines.state import State
from tacit.items.id_only import IdOnly


@dataclass(frozen=True, eq=False)
class Scorer:
    """users (B,) -> logits (B, I).

    Clients that rank with their tuned copy: one that took part in the last round has the table it
    started from, overlaid by the rows it tuned; one that sat out has the current global table,
    overlaid by the rows it last tuned; one that never took part has the global table and its first
    scorer.
    """

    algorithm: Algorithm
    state: State
    block: int = 64

    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        parts = [
            self._scores(user_B[begin : begin + self.block])
            for begin in range(0, len(user_B), self.block)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    @torch.no_grad()
    def _scores(self, user_B: np.ndarray) -> np.ndarray:
        state, row_leaf = self.state, self.algorithm.row_leaf
        users = torch.from_numpy(np.ascontiguousarray(user_B, dtype=np.int64))
        private = {leaf: value[users] for leaf, value in state.private.items()}
        shared = {leaf: value for leaf, value in state.shared.items() if leaf != row_leaf}
        if row_leaf in private:
            return self._map(shared, private, private[row_leaf], per_client=True).numpy()
        scores = self._map(shared, private, state.shared[ITEMS], per_client=False)
        if state.tuned is None:
            return scores.numpy()
        assert state.broadcast is not None
        fresh = state.fresh_U[user_B]
        if fresh.any():
            started = self._map(shared, private, state.broadcast, per_client=False)
            scores = torch.where(torch.from_numpy(fresh)[:, None], started, scores)
        return self._overlay(scores.numpy(), user_B, shared, private)

    def _map(
        self, shared: Params, private: Params, table: torch.Tensor, *, per_client: bool
    ) -> torch.Tensor:
        row_leaf = self.algorithm.row_leaf

        def score(own: Params, rows: torch.Tensor) -> torch.Tensor:
            return self.algorithm.score({**shared, **own, row_leaf: rows})

        return vmap(score, in_dims=(0, 0 if per_client else None))(private, table)

    def _overlay(
        self, score_BI: np.ndarray, user_B: np.ndarray, shared: Params, private: Params
    ) -> np.ndarray:
        tuned = self.state.tuned
        assert tuned is not None
        linear = self.algorithm.method.backbone.linear
        if linear is not None and isinstance(self.algorithm.method.items, IdOnly):
            vector, bias = linear
            overlay_linear(
                score_BI,
                user_B,
                tuned.start_U1,
                tuned.count_U,
                tuned.item_C,
                tuned.value_CD.numpy(),
                self.state.private[vector].numpy(),
                self.state.private[bias].numpy() if bias else np.zeros(1, score_BI.dtype),
                bias is not None,
            )
            return score_BI
        for b, user in enumerate(user_B):
            item_R, row_RD = tuned.of(int(user))
            own = {leaf: value[b] for leaf, value in private.items()}
            p = {**shared, **own, self.algorithm.row_leaf: row_RD}
            score_BI[b, item_R] = self.algorithm.score(p).numpy()
        return score_BI
