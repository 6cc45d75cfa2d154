"""Scores of whole catalogues for blocks of users, with the table each client really ranks with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch.func import vmap

from tacit.core.capabilities import splits_views
from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, OWN_ITEMS, PAST, PAST_WEIGHT, Params
from tacit.data.views import Lists
from tacit.engines.block import said_if_unmapped
from tacit.engines.claims import linear_leaves, overlays_linear, score_claim
from tacit.engines.flat_network import FlatNetwork
from tacit.engines.kernels.perceptron_scores_cpu import score_perceptron
from tacit.engines.kernels.scores_cpu import overlay_linear, score_own_linear
from tacit.engines.past import past_of_users
from tacit.engines.state import State
from tacit.engines.tuned import kernel_arguments
from tacit.engines.view_scores import score_views


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
    positives: Lists | None = None  # own histories, for item encoders that look at them

    def __post_init__(self) -> None:
        if self.algorithm.method.items.reads_history and self.positives is None:
            raise ValueError("this method's items depend on the reader's history: give positives")

    @cached_property
    def _ranking(self) -> tuple[Algorithm, Params]:
        """The clients' half and the shared leaves they rank with: views are made once for all."""
        algorithm, shared = self.algorithm, self.state.shared
        lifted, encoder = algorithm.lifted, algorithm.method.items
        content = {leaf: table.to(shared[ITEMS]) for leaf, table in algorithm.content.items()}
        if lifted is None or not splits_views(encoder):
            return algorithm, {**shared, **content}
        view_IW = encoder.views({**shared, **content}, shared[ITEMS])
        return lifted, {leaf: shared[leaf] for leaf in lifted.shared} | {ITEMS: view_IW}

    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        parts = [
            self._scores(user_B[begin : begin + self.block])
            for begin in range(0, len(user_B), self.block)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def describe(self) -> str:
        """Which path scores, and why it is no kernel.

        >>> from tacit.core.compose import compose
        >>> from tacit.core.types import Task
        >>> from tacit.methods import fedncf
        >>> Scorer(compose(fedncf(dim=4), Task(2, 3)), State({}, {})).describe()
        'scores: perceptron kernel'
        """
        claim = score_claim(self.algorithm.lifted or self.algorithm)
        if not self.state.on_host:
            return "scores: mapped over users (they lie on a GPU)"
        if claim.kernel is None:
            return f"scores: mapped over users ({claim.reason})"
        return f"scores: {claim.kernel} kernel"

    @torch.no_grad()
    def _scores(self, user_B: np.ndarray) -> np.ndarray:
        state = self.state
        users = torch.from_numpy(np.ascontiguousarray(user_B, dtype=np.int64))
        compiled = self._compiled(user_B) if state.on_host else None
        if compiled is not None:
            return compiled
        algorithm, everything = self._ranking
        needed = {*algorithm.model_leaves, *algorithm.row_leaves, *algorithm.content}
        needed |= {*algorithm.constant_leaves}
        private = {leaf: state.private[leaf][users] for leaf in needed if leaf in state.private}
        shared = {leaf: everything[leaf] for leaf in needed if leaf in everything}
        if self.positives is not None and algorithm.method.items.reads_history:
            private |= self._past(algorithm, shared, private, user_B)
        scores = self._map(shared, private, len(user_B))
        if state.tuned is None:
            return scores.cpu().numpy()
        assert state.broadcast is not None
        fresh = state.fresh_U[user_B]
        if fresh.any():
            started = self._map({**shared, ITEMS: state.broadcast}, private, len(user_B))
            scores = torch.where(torch.from_numpy(fresh)[:, None], started, scores)
        return self._overlay(scores.numpy(), user_B, shared, private)

    def _compiled(self, user_B: np.ndarray) -> np.ndarray | None:
        """Scores by a pass that is written down, for scorers that have one."""
        algorithm, everything = self._ranking
        kernel = score_claim(algorithm).kernel
        if kernel == "linear":
            return self._own_linear(user_B)
        if kernel == "perceptron":
            return self._perceptron(user_B)
        if kernel == "views":
            leaves = {**everything, **self.state.private}
            return score_views(algorithm, leaves, self.positives, user_B)
        return None

    def _perceptron(self, user_B: np.ndarray) -> np.ndarray:
        state, (row_leaf,) = self.state, self.algorithm.row_leaves
        network = FlatNetwork.of(self.algorithm.method.backbone)
        assert network is not None
        user_B = np.ascontiguousarray(user_B, dtype=np.int64)
        net_BN = network.read(state, user_B)
        has_own = row_leaf != ITEMS
        table = np.zeros((1, 1), net_BN.dtype) if has_own else state.shared[ITEMS].numpy()
        started = table if state.broadcast is None else state.broadcast.numpy()
        layer = net_BN[0, : network.dim * network.layers[0]].reshape(network.dim, -1)
        score_BI = np.empty((len(user_B), self.algorithm.task.n_items), net_BN.dtype)
        score_perceptron(
            score_BI,
            user_B,
            table,
            started,
            state.fresh_U,
            state.private[row_leaf].numpy() if has_own else table[None],
            has_own,
            network.widths,
            net_BN,
            table @ layer if network.is_shared else table,
            started @ layer if network.is_shared else started,
            network.is_shared,
            network.vectors(state.private, net_BN),
            network.has_user,
            *kernel_arguments(state.tuned, net_BN.dtype),
            net_BN.dtype.type(0),
        )
        return score_BI

    def _own_linear(self, user_B: np.ndarray) -> np.ndarray:
        """Personal tables are large: read them where they lie."""
        linear = linear_leaves(self.algorithm.method.backbone)
        assert linear is not None
        vector, bias = linear
        own_UID = self.state.private[OWN_ITEMS].numpy()
        score_BI = np.empty((len(user_B), own_UID.shape[1]), own_UID.dtype)
        score_own_linear(
            score_BI,
            np.ascontiguousarray(user_B, dtype=np.int64),
            own_UID,
            self.state.private[vector].numpy(),
            self.state.private[bias].numpy() if bias else np.zeros(1, own_UID.dtype),
            bias is not None,
        )
        return score_BI

    def _past(
        self, algorithm: Algorithm, shared: Params, private: Params, user_B: np.ndarray
    ) -> Params:
        """Rows of each user's own history, with weights."""
        assert self.positives is not None
        item_BH, weight_BH = (torch.from_numpy(x) for x in past_of_users(self.positives, user_B))
        past: Params = {}
        for leaf in (*algorithm.row_leaves, *algorithm.content):
            if leaf in shared:
                past[leaf + PAST] = shared[leaf][item_BH]
            else:
                past[leaf + PAST] = private[leaf][torch.arange(len(user_B))[:, None], item_BH]
            past[PAST_WEIGHT] = weight_BH.to(past[leaf + PAST])
        return past

    def _map(self, shared: Params, private: Params, count: int) -> torch.Tensor:
        score = self._ranking[0].score
        if not private:  # everybody ranks alike
            return score(shared).repeat(count, 1)
        with said_if_unmapped():
            return vmap(lambda own: score({**shared, **own}))(private)

    def _overlay(
        self, score_BI: np.ndarray, user_B: np.ndarray, shared: Params, private: Params
    ) -> np.ndarray:
        tuned = self.state.tuned
        assert tuned is not None
        linear = overlays_linear(self.algorithm.method)
        if linear is not None:
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
            p = {**shared, **own, ITEMS: row_RD}
            score_BI[b, item_R] = self.algorithm.score(p).numpy()
        return score_BI
