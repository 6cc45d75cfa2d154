"""A person who joined after training: private parameters are fitted, shared ones stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.custom import CustomAlgorithm
from tacit.core.types import Params, Task
from tacit.data.views import History, TrainView
from tacit.engines.custom import CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.scoring import Scorer
from tacit.engines.state import State


@dataclass(frozen=True, eq=False)
class Newcomer:
    """A federation of one: user 0 is the newcomer."""

    algorithm: ComposedAlgorithm
    state: State
    train: TrainView


def newcomer_scores(
    algorithm: ComposedAlgorithm,
    shared: Params,
    history: History,
    *,
    name: int,
    seed: int,
    rounds: int,
) -> np.ndarray:
    """Logits over the catalogue for one new history, after `rounds` local rounds.

    >>> from tacit.methods import fedmf
    >>> algorithm = compose(fedmf(dim=8), Task(n_users=1, n_items=6))
    >>> shared = {"items": torch.randn(6, 8, generator=torch.Generator().manual_seed(0))}
    >>> history = History(np.array([1, 2]))
    >>> scores = newcomer_scores(algorithm, shared, history, name=7, seed=0, rounds=30)
    >>> bool(scores[[1, 2]].mean() > scores[[0, 3, 4, 5]].mean())
    True
    """
    one = fit_newcomer(algorithm, shared, history, name=name, seed=seed, rounds=rounds)
    return Scorer(one.algorithm, one.state, train=one.train)(np.array([0]))[0]


def fit_newcomer(
    algorithm: ComposedAlgorithm,
    shared: Params,
    history: History,
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
    >>> shared, history = {"items": torch.ones(3, 2)}, History(np.array([1]))
    >>> one = fit_newcomer(algorithm, shared, history, name=7, seed=0, rounds=1)
    >>> one.algorithm.task.n_users, one.train.positives[0].tolist()
    (1, [1])
    """
    alone = compose(algorithm.method, Task(1, algorithm.task.n_items, algorithm.task.content))
    train = TrainView.of_one(history, algorithm.task.n_items, name)
    frozen = frozenset(shared)
    if algorithm.method.sync.scores_with == "tuned":
        frozen -= set(algorithm.row_parameters)
    still = replace(alone, frozen=frozen)
    engine = LoopEngine(next(iter(shared.values())).dtype if shared else torch.float32)
    state = engine.start(still, train, seed)
    state.shared = {parameter: value.clone() for parameter, value in shared.items()}
    for parameter, init in alone.private.items():
        if init.like in shared:  # what began as the global table begins as today's
            state.private[parameter][0] = shared[init.like]
    for _ in range(rounds):
        engine.train_alone(still, train, state, seed)
    return Newcomer(still, state, train)


def custom_newcomer_scores(
    algorithm: CustomAlgorithm,
    shared: Params,
    history: History,
    *,
    name: int,
    seed: int,
    rounds: int,
) -> np.ndarray:
    """The same for a custom algorithm.

    The server is told no index for the newcomer, and its parameters stay as they are.
    """
    alone = algorithm.method.algorithm(Task(1, algorithm.task.n_items))
    train = TrainView.of_one(history, algorithm.task.n_items, name)
    dtype = next((parameter.dtype for parameter in shared.values()), torch.float32)
    engine = LoopEngine(dtype)
    state = engine.start(alone, train, seed)
    state.shared = shared
    for _ in range(rounds):
        engine.train_alone(alone, train, state, seed)
    return CustomScorer(alone, train, state, newcomer=True)(np.array([0]))[0]
