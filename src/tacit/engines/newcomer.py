"""A person who joined after training: private parameters are fitted, shared ones stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit.core.compose import Algorithm, compose
from tacit.core.custom import DirectMethod
from tacit.core.types import Params, Task
from tacit.data.views import Lists, TrainView
from tacit.engines.custom import DirectEngine, DirectScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.scoring import Scorer
from tacit.engines.state import State

# A person who joined after training: private parts are fitted, shared ones stay as they are.


def newcomer_scores(
    algorithm: Algorithm,
    shared: Params,
    history: np.ndarray,
    *,
    name: int,
    seed: int,
    rounds: int,
) -> np.ndarray:
    """Logits over the catalogue for one new history, after `rounds` local rounds.

    >>> from tacit.methods import fedmf
    >>> algorithm = compose(fedmf(dim=8), Task(n_users=1, n_items=6))
    >>> shared = {"items": torch.randn(6, 8, generator=torch.Generator().manual_seed(0))}
    >>> scores = newcomer_scores(algorithm, shared, np.array([1, 2]), name=7, seed=0, rounds=30)
    >>> bool(scores[[1, 2]].mean() > scores[[0, 3, 4, 5]].mean())
    True
    """
    one = fit_newcomer(algorithm, shared, history, name=name, seed=seed, rounds=rounds)
    return Scorer(one.algorithm, one.state, positives=one.positives)(np.array([0]))[0]


@dataclass(frozen=True, eq=False)
class Newcomer:
    """A federation of one: user 0 is the newcomer."""

    algorithm: Algorithm
    state: State
    positives: Lists


def fit_newcomer(
    algorithm: Algorithm,
    shared: Params,
    history: np.ndarray,
    *,
    name: int,
    seed: int,
    rounds: int,
) -> Newcomer:
    """One new history after `rounds` local rounds.

    Nothing is uploaded. A method that ranks with the global table holds it still; one that ranks
    with its own copy tunes that copy from the global table, as any client does.

    >>> from tacit.methods import fedmf
    >>> algorithm = compose(fedmf(dim=2), Task(n_users=9, n_items=3))
    >>> one = fit_newcomer(
    ...     algorithm, {"items": torch.ones(3, 2)}, np.array([1]), name=7, seed=0, rounds=1
    ... )
    >>> one.algorithm.task.n_users, one.positives[0].tolist()
    (1, [1])
    """
    alone = compose(algorithm.method, Task(1, algorithm.task.n_items, algorithm.task.content))
    train = TrainView(
        algorithm.task.n_items,
        Lists(np.array([0, len(history)]), np.ascontiguousarray(history, dtype=np.int64)),
        np.array([name], dtype=np.uint64),
        Lists.empty(1),
    )
    frozen = frozenset(shared)
    if algorithm.method.sync.scores_with == "tuned":
        frozen -= set(algorithm.row_leaves)
    dtype = next(iter(shared.values())).dtype if shared else torch.float32
    engine = LoopEngine(dtype, frozen)
    state = engine.start(alone, train, seed)
    state.shared = {leaf: value.clone() for leaf, value in shared.items()}
    for leaf, init in alone.private.items():
        if init.like in shared:  # what began as the global table begins as today's
            state.private[leaf][0] = shared[init.like]
    for _ in range(rounds):
        engine.train_alone(alone, train, state, seed)
    return Newcomer(alone, state, train.positives)


# A person who joined after training, for methods that speak for themselves.

NO_PLACE = -1


def direct_newcomer_scores(
    method: DirectMethod,
    shared: Params,
    history: np.ndarray,
    *,
    n_items: int,
    name: int,
    seed: int,
    rounds: int,
) -> np.ndarray:
    """Logits over the catalogue for one new history, after `rounds` local rounds; nothing is sent.

    The server is told no place for the newcomer, and its leaves stay as they are.
    """
    train = TrainView(
        n_items,
        Lists(np.array([0, len(history)]), np.ascontiguousarray(history, dtype=np.int64)),
        np.array([name], dtype=np.uint64),
        Lists.empty(1),
    )
    dtype = next((leaf.dtype for leaf in shared.values()), torch.float32)
    engine = DirectEngine(dtype, block=1)
    state = engine.start(method, train, seed)
    state.shared = shared
    silent = Participants(np.array([0]), np.array([False]))  # plays, and its upload never comes
    for _ in range(rounds):
        engine.clients(method, train, state, silent, seed, place=NO_PLACE)
        state.round_number += 1
    return DirectScorer(method, train, state, place=NO_PLACE)(np.array([0]))[0]
