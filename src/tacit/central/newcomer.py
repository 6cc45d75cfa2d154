"""A person who joined after central training: own rows are fitted, all others stay as they are."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.central.rows import Law, step_rows, with_row_moments
from tacit.central.samples import draw_epoch
from tacit.core.moments import without_moments
from tacit.core.optim import Adam, Sgd
from tacit.core.types import Init, Params
from tacit.data.sampling import Sampling
from tacit.data.views import Lists, TrainView
from tacit.engines.leaves import draw_leaf

STEPS = 64  # an epoch of a newcomer has at most so many


class Fittable(Protocol):
    """What a model of pairs must tell to be fitted to somebody new."""

    @property
    def batch(self) -> int: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def optimiser(self) -> Adam | Sgd: ...
    def user_tables(self) -> dict[str, Init]: ...
    def item_tables(self) -> dict[str, Init]: ...
    def n_items(self, leaves: Params) -> int: ...
    def law(self, leaves: Params, number: int, n_items: int) -> Law: ...
    def slope(
        self, moving: Params, still: Params, label_B: np.ndarray, divisor: int
    ) -> tuple[float, dict[str, np.ndarray]]: ...


def first_rows(init: Init, leaf: str, seed: int, name_U: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The first value of a leaf for each name, stacked; name 0 is nobody's.

    >>> first_rows(Init((2,)), "user", 0, np.array([7], np.uint64), torch.float32).tolist()
    [[0.0, 0.0]]
    """
    return draw_leaf(init, seed, streams.INIT, streams.name_of(leaf), name_U, dtype)


def newcomer_rows(
    model: Fittable, leaves: Params, history: np.ndarray, *, name: int, seed: int, epochs: int
) -> Params:
    """The newcomer's rows, (1, D) in each user table, after descent on one history.

    In training hardly two samples of a user meet in one batch, so a user takes about one step for
    each of its samples: here too, up to STEPS in an epoch.

    >>> from tacit.methods import Mf
    >>> items = torch.eye(4) * 3
    >>> rows = newcomer_rows(Mf(dim=4), {"items": items}, np.array([2]), name=1, seed=0, epochs=20)
    >>> int(rows["user"][0].argmax())
    2
    """
    n_items, users, tables = model.n_items(leaves), model.user_tables(), without_moments(leaves)
    positives = Lists(np.array([0, len(history)]), np.asarray(history, dtype=np.int64))
    key_U = np.array([name], dtype=np.uint64)
    train = TrainView(n_items, positives, key_U, Lists.empty(1))
    dtype = next(iter(leaves.values())).dtype
    own = {leaf: first_rows(init, leaf, seed, key_U, dtype) for leaf, init in users.items()}
    own = with_row_moments(own, model.optimiser)
    only = np.zeros(1, dtype=np.int64)
    for number in range(1, epochs + 1):
        samples = draw_epoch(train, model.sampling, seed=seed, number=number)
        law = model.law(leaves, number, n_items)
        size = max(1, -(-len(samples) // STEPS))
        for low in range(0, len(samples), size):
            item_B = torch.from_numpy(samples.item_N[low : low + size])
            still = tables | {leaf: leaves[leaf][item_B] for leaf in model.item_tables()}
            moving = {leaf: own[leaf] for leaf in users}
            # each sample weighs what it weighs in training, where a batch is everybody's
            _, slope = model.slope(moving, still, samples.label_N[low : low + size], model.batch)
            for leaf, gradient in slope.items():
                step_rows(own, leaf, only, gradient, law)
    return {leaf: own[leaf] for leaf in users}
