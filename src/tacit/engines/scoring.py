"""Scores of whole catalogues for blocks of users, with the table that each client really ranks
with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch.func import vmap

from tacit.core.capabilities import splits_views
from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, OWN_ITEMS, PAST, PAST_WEIGHT, Params, Task
from tacit.data.batches import past_of_users
from tacit.data.dataset import FeatureTable, Modalities
from tacit.data.views import Lists
from tacit.engines.block import said_if_unmapped
from tacit.engines.claims import linear_leaves, overlays_linear, score_claim
from tacit.engines.flat_network import FlatNetwork, Router
from tacit.engines.kernels.perceptron_scores_cpu import score_perceptron
from tacit.engines.kernels.scores_cpu import overlay_linear, score_own_linear, weigh_views
from tacit.engines.state import State, kernel_arguments
from tacit.parts.sync import Replace

# Scores of linear scorers over mixed views: one product for a block of readers.
#
# A reader's logits are Σ_v w_v θ·F_vi + b = (w ⊗ θ)·F_i + b, so views are never mixed, only their
# weights and the scorer are.


def weights_of_readers(
    router: Router, p: Params, positives: Lists | None, user_B: np.ndarray
) -> np.ndarray:
    """(B, V): how much each view counts for each reader; `p` holds the views as "items".

    >>> import torch
    >>> alone = Router(count=1, softmaxes=1, is_private=True)
    >>> weights_of_readers(alone, {ITEMS: torch.zeros(3, 2)}, None, np.array([0, 1])).tolist()
    [[1.0], [1.0]]
    """
    view_IW = p[ITEMS].numpy()
    weight_BV = np.ones((len(user_B), router.count), view_IW.dtype)
    if not router.exists:
        return weight_BV
    assert positives is not None
    weigh_views(
        weight_BV,
        np.ascontiguousarray(user_B, dtype=np.int64),
        positives.start_U1,
        positives.item_N,
        view_IW,
        router.softmaxes,
        *router.leaves(p, view_IW.shape[1]),
        router.is_private,
        np.array([0.0, 1.0], view_IW.dtype),
    )
    return weight_BV


def score_views(
    lifted: Algorithm, p: Params, positives: Lists | None, user_B: np.ndarray
) -> np.ndarray:
    """Logits (B, I) of the clients' half of a fusion that `score_claim` claims."""
    router, linear = Router.of(lifted.method.items), linear_leaves(lifted.method.backbone)
    assert router is not None
    assert linear is not None
    vector, bias = linear
    view_IW, vector_BD = p[ITEMS].numpy(), p[vector].numpy()[user_B]
    weight_BV = weights_of_readers(router, p, positives, user_B)
    mixed_BVD = weight_BV[:, :, None] * vector_BD[:, None, :]
    score_BI: np.ndarray = mixed_BVD.reshape(len(user_B), -1) @ view_IW.T
    if bias is not None:
        score_BI += p[bias].numpy()[user_B][:, None]
    return score_BI


# Everything that one client ranks with, in one place.


def with_past(algorithm: Algorithm, p: Params, item_H: np.ndarray) -> Params:
    """The leaves of one client, whole tables, with content and the rows of its own history."""
    table = next(iter(p.values()))
    whole = {**p, **{leaf: value.to(table) for leaf, value in algorithm.content.items()}}
    if not algorithm.method.items.reads_history:
        return whole
    items = torch.from_numpy(np.unique(item_H))
    rows = (*algorithm.row_leaves, *algorithm.content)
    past = {f"{leaf}{PAST}": whole[leaf][items] for leaf in rows}
    weight_H = torch.full((len(items),), 1.0 / max(1, len(items)), dtype=table.dtype)
    return {**whole, **past, PAST_WEIGHT: weight_H}


def client_leaves(
    algorithm: Algorithm, state: State, user: int, item_H: np.ndarray | None = None
) -> Params:
    """Shared and own leaves of one client, whole tables, with content; `item_H` is the client's own
    history, for items that look different to everybody.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> state = State({"items": torch.ones(3, 2)}, {"user": torch.ones(4, 2)})
    >>> leaves = client_leaves(compose(fedmf(dim=2), Task(4, 3)), state, 0)
    >>> {name: tuple(leaf.shape) for name, leaf in leaves.items()}
    {'items': (3, 2), 'user': (2,)}
    """
    p: Params = {**state.shared}
    p |= {name: leaf[user] for name, leaf in state.private.items()}
    if state.tuned is not None and state.broadcast is not None:
        began = state.broadcast if state.fresh_U[user] else state.shared[ITEMS]
        item_R, row_RD = state.tuned.of(user)
        p[ITEMS] = began.clone()
        p[ITEMS][torch.from_numpy(item_R.astype(np.int64))] = row_RD
    return with_past(algorithm, p, np.zeros(0, np.int64) if item_H is None else item_H)


# Scores of whole catalogues for blocks of users, with the table each client really ranks with.


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


# Scores of items that did not exist in training, from rows that somebody made for them.


@dataclass(frozen=True, eq=False)
class RowScorer:
    """users (B,) -> logits (B, N) of N given rows. Nobody has a personal row of such an item: all
    rank the one that was made.

    >>> from tacit.core.compose import compose
    >>> from tacit.methods import fedmf
    >>> state = State({"items": torch.ones(3, 2)}, {"user": torch.tensor([[1.0, 0.0]])})
    >>> algorithm = compose(fedmf(dim=2), Task(1, 3))
    >>> rows = torch.tensor([[5.0, 1.0], [7.0, 1.0]])
    >>> RowScorer.of(algorithm, state, None, rows, Modalities())(np.array([0])).tolist()
    [[5.0, 7.0]]
    """

    scorer: Scorer
    first: int  # place of the first given row; before it stand the items of the past, if need be

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        state: State,
        positives: Lists | None,
        row_ND: torch.Tensor,
        content: Modalities,
    ) -> RowScorer:
        """For the clients of `algorithm`, which is on the items that exist in training; `positives`
        are in its codes, `content` is that of the given rows."""
        method, task = algorithm.method, algorithm.task
        all_known = task.content if task.content is not None else Modalities()
        known = Modalities({n: all_known[n] for n in method.items.content(task.content)})
        content = _without_gaps(algorithm, known, content)
        table, first = row_ND.cpu(), 0
        if method.items.reads_history:  # whoever looks back needs the rows of the past as well
            table, first = torch.cat([state.shared[ITEMS].cpu(), table]), task.n_items
            content = _joined(_without_gaps(algorithm, known, known), content)
        # a rule over the global table reads generated rows as it reads all others
        sync = method.sync if method.sync.trains == (ITEMS,) else Replace()
        ranked = Algorithm(replace(method, sync=sync), Task(task.n_users, len(table), content))
        leaves = {n: x for n, x in state.shared.items() if n in ranked.shared}
        own = {n: x for n, x in state.private.items() if n in ranked.private}
        ranking = State({**leaves, ITEMS: table}, own, state.round_number)
        ranking.fresh_U = np.zeros(task.n_users, bool)
        past = positives if method.items.reads_history else None
        return cls(Scorer(ranked, ranking, positives=past), first)

    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        return self.scorer(user_B)[:, self.first :]


def _without_gaps(algorithm: Algorithm, known: Modalities, content: Modalities) -> Modalities:
    """Gaps filled as the item encoder fills them in training: from the items that exist there, and
    not from those that happen to be asked about together."""
    nobody = np.zeros(1, bool)
    nothing = {n: FeatureTable(known[n].value_IF[:1] * 0, nobody) for n in known}
    gaps = algorithm.method.items.content(_joined(known, Modalities(nothing)))
    filled = {}
    for name in known:
        present_N = content[name].present_I
        value_NF = np.where(present_N[:, None], content[name].value_IF, gaps[name][-1])
        filled[name] = FeatureTable(value_NF, np.ones_like(present_N))
    return Modalities(filled)


def _joined(one: Modalities, two: Modalities) -> Modalities:
    """The items of one catalogue, then those of another."""
    tables = {}
    for name in one:
        value_IF = np.concatenate([one[name].value_IF, two[name].value_IF])
        present_I = np.concatenate([one[name].present_I, two[name].present_I])
        tables[name] = FeatureTable(value_IF, present_I)
    return Modalities(tables)
