"""Scores of whole catalogues for blocks of users, with the table that each client really ranks
with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch.func import vmap

from tacit.core.capabilities import split_views
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import HISTORY_WEIGHT, ITEMS, OF_HISTORY, Params, Task
from tacit.data.batches import history_of_users
from tacit.data.dataset import FeatureTable, Modalities
from tacit.data.views import History, TrainView
from tacit.engines.accelerators import linear, score_claim
from tacit.engines.block import said_if_unmapped
from tacit.engines.state import State
from tacit.parts.sync import Replace

# Everything that one client ranks with, in one place.


def with_history(algorithm: ComposedAlgorithm, p: Params, history: History) -> Params:
    """The parameters of one client, whole tables, with content and the rows of its own history."""
    table = next(iter(p.values()))
    whole = {**p, **{name: value.to(table) for name, value in algorithm.content.items()}}
    if not algorithm.method.items.reads_history:
        return whole
    items, weight_H = algorithm.history_weights(history)
    rows = (*algorithm.row_parameters, *algorithm.content)
    read = {f"{name}{OF_HISTORY}": whole[name][items] for name in rows}
    return {**whole, **read, HISTORY_WEIGHT: weight_H.to(table.dtype)}


def client_parameters(
    algorithm: ComposedAlgorithm, state: State, user: int, history: History | None = None
) -> Params:
    """Shared and own parameters of one client, whole tables, with content; `history` is the
    client's own, for items that look different to everybody.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> state = State({"items": torch.ones(3, 2)}, {"user": torch.ones(4, 2)})
    >>> parameters = client_parameters(compose(fedmf(dim=2), Task(4, 3)), state, 0)
    >>> {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    {'items': (3, 2), 'user': (2,)}
    """
    p: Params = {**state.shared}
    p |= {name: parameter[user] for name, parameter in state.private.items()}
    if state.tuned is not None and state.broadcast is not None:
        began = state.broadcast if state.fresh_U[user] else state.shared[ITEMS]
        item_R, row_RD = state.tuned.of(user)
        p[ITEMS] = began.clone()
        p[ITEMS][torch.from_numpy(item_R.astype(np.int64))] = row_RD
    return with_history(algorithm, p, history or History(np.zeros(0, np.int64)))


# Scores of whole catalogues for blocks of users, with the table each client really ranks with.


@dataclass(frozen=True, eq=False)
class Scorer:
    """users (B,) -> logits (B, I).

    Clients that rank with their tuned copy: one that took part in the last round has the table it
    started from, overlaid by the rows it tuned; one that sat out has the current global table,
    overlaid by the rows it last tuned; one that never took part has the global table and its first
    scorer.
    """

    algorithm: ComposedAlgorithm
    state: State
    block: int = 64
    train: TrainView | None = None  # own histories, for item encoders that look at them

    def __post_init__(self) -> None:
        if self.algorithm.method.items.reads_history and self.train is None:
            raise ValueError("this method's items depend on the reader's history: give train")

    @cached_property
    def _ranking(self) -> tuple[ComposedAlgorithm, Params]:
        """The clients' half and the shared parameters they rank with: views are made once for
        all."""
        algorithm, shared = self.algorithm, self.state.shared
        with_server_views, encoder = (
            algorithm.with_server_views,
            split_views(algorithm.method.items),
        )
        content = {name: table.to(shared[ITEMS]) for name, table in algorithm.content.items()}
        if with_server_views is None or encoder is None:
            return algorithm, {**shared, **content}
        view_IW = encoder.views({**shared, **content}, shared[ITEMS])
        return with_server_views, {name: shared[name] for name in with_server_views.shared} | {
            ITEMS: view_IW
        }

    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        parts = [
            self._scores(user_B[begin : begin + self.block])
            for begin in range(0, len(user_B), self.block)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    @property
    def kernel(self) -> str | None:
        """The kernel that scores; None where the parts' own functions do."""
        claim = score_claim(self.algorithm.with_server_views or self.algorithm)
        return claim.name if self.state.on_host else None

    def describe(self) -> str:
        """Which path scores, and why it is no kernel.

        >>> from tacit.core.compose import compose
        >>> from tacit.core.types import Task
        >>> from tacit.methods import fedncf
        >>> Scorer(compose(fedncf(dim=4), Task(2, 3)), State({}, {})).describe()
        'scores: perceptron kernel'
        """
        claim = score_claim(self.algorithm.with_server_views or self.algorithm)
        if not self.state.on_host:
            return "scores: mapped over users (they lie on a GPU)"
        if claim.kernel is None:
            return f"scores: mapped over users ({claim.reason})"
        return f"scores: {claim.name} kernel"

    @torch.no_grad()
    def _scores(self, user_B: np.ndarray) -> np.ndarray:
        state = self.state
        users = torch.from_numpy(np.ascontiguousarray(user_B, dtype=np.int64))
        compiled = self._compiled(user_B) if state.on_host else None
        if compiled is not None:
            return compiled
        algorithm, everything = self._ranking
        needed = {*algorithm.model_parameters, *algorithm.row_parameters, *algorithm.content}
        needed |= {*algorithm.constant_parameters}
        private = {name: state.private[name][users] for name in needed if name in state.private}
        shared = {name: everything[name] for name in needed if name in everything}
        if self.train is not None and algorithm.method.items.reads_history:
            private |= self._history(algorithm, shared, private, user_B)
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
        if kernel is None:
            return None
        positives = None if self.train is None else self.train.positives
        return kernel.score(self.state, everything, positives, user_B)

    def _history(
        self, algorithm: ComposedAlgorithm, shared: Params, private: Params, user_B: np.ndarray
    ) -> Params:
        """Rows of each user's own history, with weights."""
        assert self.train is not None
        recency = algorithm.method.recency
        count_N = None if recency is None else recency.of_positives(self.train)
        found = history_of_users(self.train.positives, user_B, count_N)
        item_BH, weight_BH = (torch.from_numpy(part) for part in found)
        history: Params = {}
        for name in (*algorithm.row_parameters, *algorithm.content):
            if name in shared:
                history[name + OF_HISTORY] = shared[name][item_BH]
            else:
                history[name + OF_HISTORY] = private[name][
                    torch.arange(len(user_B))[:, None], item_BH
                ]
            history[HISTORY_WEIGHT] = weight_BH.to(history[name + OF_HISTORY])
        return history

    def _map(self, shared: Params, private: Params, count: int) -> torch.Tensor:
        score = self._ranking[0].logits
        if not private:  # everybody ranks alike
            return score(shared).repeat(count, 1)
        with said_if_unmapped():
            return vmap(lambda own: score({**shared, **own}))(private)

    def _overlay(
        self, score_BI: np.ndarray, user_B: np.ndarray, shared: Params, private: Params
    ) -> np.ndarray:
        tuned = self.state.tuned
        assert tuned is not None
        parameters = linear.claims_overlay(self.algorithm)
        if parameters is not None:
            linear.overlay(score_BI, user_B, tuned, parameters, self.state)
            return score_BI
        for b, user in enumerate(user_B):
            item_R, row_RD = tuned.of(int(user))
            own = {name: value[b] for name, value in private.items()}
            p = {**shared, **own, ITEMS: row_RD}
            score_BI[b, item_R] = self.algorithm.logits(p).numpy()
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
    first: int  # place of the first given row; before it stand the items of the history, if need be

    @classmethod
    def of(
        cls,
        algorithm: ComposedAlgorithm,
        state: State,
        train: TrainView | None,
        row_ND: torch.Tensor,
        content: Modalities,
    ) -> RowScorer:
        """For the clients of `algorithm`, which is on the items that exist in training; `train` is
        in its codes, `content` is that of the given rows."""
        method, task = algorithm.method, algorithm.task
        all_known = task.content if task.content is not None else Modalities()
        known = Modalities({n: all_known[n] for n in method.items.content(task.content)})
        content = _without_gaps(algorithm, known, content)
        table, first = row_ND.cpu(), 0
        if method.items.reads_history:  # whoever looks back needs the rows of the history as well
            table, first = torch.cat([state.shared[ITEMS].cpu(), table]), task.n_items
            content = _joined(_without_gaps(algorithm, known, known), content)
        # a rule over the global table reads generated rows as it reads all others
        sync = method.sync if method.sync.trains == (ITEMS,) else Replace()
        ranked = ComposedAlgorithm(
            replace(method, sync=sync), Task(task.n_users, len(table), content)
        )
        parameters = {n: x for n, x in state.shared.items() if n in ranked.shared}
        own = {n: x for n, x in state.private.items() if n in ranked.private}
        ranking = State({**parameters, ITEMS: table}, own, state.round_number)
        ranking.fresh_U = np.zeros(task.n_users, bool)
        history = train if method.items.reads_history else None
        return cls(Scorer(ranked, ranking, train=history), first)

    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        return self.scorer(user_B)[:, self.first :]


def _without_gaps(
    algorithm: ComposedAlgorithm, known: Modalities, content: Modalities
) -> Modalities:
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
