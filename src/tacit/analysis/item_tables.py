"""Which item table a client ranks with, and states in which it ranks with another one.

A table is exchanged by exchanging leaves of the state and asking the scorer as always, so nothing
here knows how a method reads its tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from tacit import streams
from tacit.core.compose import Algorithm
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.engines.client import client_leaves
from tacit.engines.state import State
from tacit.evaluation.ranking import ScoreBlock


@torch.no_grad()
def item_vectors(
    algorithm: Algorithm, state: State, user: int, item_H: np.ndarray | None = None
) -> np.ndarray:
    """The (I, D) vectors that one user's scorer sees; `item_H` is the user's own history, for items
    that look different to everybody.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> state = State({"items": torch.ones(3, 2)}, {"user": torch.ones(1, 2)})
    >>> item_vectors(compose(fedmf(dim=2), Task(1, 3)), state, 0).shape
    (3, 2)
    """
    p = client_leaves(algorithm, state, user, item_H)
    return algorithm.encoded(p, algorithm.method.sync.read).numpy()


@torch.no_grad()
def adds_global(algorithm: Algorithm) -> bool:
    """Whether a client with a personal table reads the global one beside it when it ranks.

    Asked of the method itself, with leaves of ones: does what it reads change without the global
    table?

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> adds_global(compose(fedmf(), Task(1, 3)))  # it has no personal table
    False
    """
    if OWN_ITEMS not in algorithm.private or ITEMS not in algorithm.shared:
        return False
    leaves = {**algorithm.shared, **algorithm.private}
    p = {name: torch.ones(init.shape) for name, init in leaves.items()}
    empty = {**p, ITEMS: torch.zeros_like(p[ITEMS])}
    read = algorithm.method.sync.read
    return not torch.equal(read(p), read(empty))


@dataclass(frozen=True, eq=False)
class Tables:
    """Ways to rank with one's own scorer, by the table's name; sentences say what is absent."""

    scores: dict[str, ScoreBlock]
    sentences: tuple[str, ...]


def exchanged(
    name: str,
    algorithm: Algorithm,
    state: State,
    scorer: Callable[[State], ScoreBlock],
    seed: int,
) -> Tables:
    """The client's own table, the global one, and another user's, as far as they exist."""
    if state.tuned is None and OWN_ITEMS not in state.private:
        return Tables(
            {"global": scorer(state)},
            (f"{name} ranks with the global table, so there is no own one to exchange.",),
        )
    scores = {"own": scorer(state)}
    said = []
    if state.tuned is not None:
        scores["global"] = scorer(replace(state, tuned=None, broadcast=None))
    elif ITEMS not in state.shared:
        said.append(f"{name} has no global table: nothing is ever sent.")
    elif adds_global(algorithm):
        own = state.private[OWN_ITEMS]
        nothing = torch.zeros(1, dtype=own.dtype).expand(own.shape)
        scores["global"] = scorer(_with_own(state, nothing))
        scores["personal part"] = scorer(_without_global(state))
        said.append(
            f"{name} adds its personal table to the global one: 'own' is the sum, and each of the "
            "two stands alone beside it."
        )
    else:
        everybody = state.shared[ITEMS].expand(state.private[OWN_ITEMS].shape)
        scores["global"] = scorer(_with_own(state, everybody))
    scores["another's"] = _anothers(state, scorer, seed)
    return Tables(scores, tuple(said))


def _without_global(state: State) -> State:
    nothing = torch.zeros_like(state.shared[ITEMS])
    return replace(state, shared={**state.shared, ITEMS: nothing})


def _with_own(state: State, table: torch.Tensor) -> State:
    return replace(state, private={**state.private, OWN_ITEMS: table})


def someone_else(n_users: int, seed: int) -> np.ndarray:
    """Another user for every user, each taken once: a random order, everybody has the next one's.

    >>> other_U = someone_else(5, seed=0)
    >>> sorted(other_U.tolist()), bool((other_U != np.arange(5)).all())
    ([0, 1, 2, 3, 4], True)
    """
    name = streams.name_of("another user's table")
    order = streams.numpy_generator(seed, streams.RESAMPLE, 0, name).permutation(n_users)
    other_U = np.empty(n_users, dtype=np.int64)
    other_U[order] = np.roll(order, -1)
    return other_U


def _anothers(state: State, scorer: Callable[[State], ScoreBlock], seed: int) -> ScoreBlock:
    """Every scorer moves to the device of somebody else, and ranks with what it finds there."""
    n_users = len(next(iter(state.private.values())))
    other_U = someone_else(n_users, seed)
    guest_U = torch.from_numpy(np.argsort(other_U))  # whose scorer comes to each device
    moved = {
        name: leaf if name == OWN_ITEMS else leaf[guest_U] for name, leaf in state.private.items()
    }
    block = scorer(replace(state, private=moved))
    return lambda user_B: block(other_U[user_B])
