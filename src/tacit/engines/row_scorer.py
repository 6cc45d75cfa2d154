"""Scores of items that did not exist in training, from rows that somebody made for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, Task
from tacit.data.modalities import FeatureTable, Modalities
from tacit.data.views import Lists
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.sync.replace import Replace


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
