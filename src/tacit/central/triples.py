"""Central training on triples: a user, an item that it has, and one that it does not have.

Every train interaction is met once in an epoch, with one negative that is drawn anew. The loss is
that of Bayesian personalised ranking (Rendle et al., UAI 2009): softplus of the difference between
the negative's score and the positive's, a mean over a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from tacit import streams
from tacit.central.pairs import draw_unshuffled, first_table_rows
from tacit.central.rows import FAST, StepRule, step_samples, with_row_moments
from tacit.compiled import compiled
from tacit.core.central import TrainedCentralMethod
from tacit.core.optim import Adam, Sgd, without_moments
from tacit.core.types import ITEMS, Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import TrainView
from tacit.errors import TacitError

USER, BIAS = "user", "bias"
_NOBODY = np.zeros(1, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Triples:
    """N samples in training order: who, an item of the history, and one that is not in it.

    >>> len(Triples(np.array([0]), np.array([4]), np.array([1])))
    1
    """

    user_N: np.ndarray  # int64
    item_N: np.ndarray
    other_N: np.ndarray

    def __len__(self) -> int:
        return len(self.item_N)

    def part(self, low: int, size: int) -> Triples:
        """The triples from `low` on, at most `size` of them."""
        own = slice(low, low + size)
        return Triples(self.user_N[own], self.item_N[own], self.other_N[own])


def draw_triples(train: TrainView, *, seed: int, number: int) -> Triples:
    """Everybody's triples of epoch `number` (from 1), shuffled across users. Negatives come from
    each user's own stream, as those of clients do; who has every item has no triples.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1, 1]), np.array([0, 0, 1]), n_lists=2)
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> drawn = draw_triples(train, seed=0, number=1)
    >>> drawn.user_N.tolist(), drawn.item_N.tolist(), drawn.other_N.tolist()
    ([0], [0], [1])
    """
    drawn = draw_unshuffled(train, Sampling(negatives=1), seed=seed, number=number)
    other_N = np.flatnonzero(drawn.label_N == 0)  # each right after its positive
    order_N = streams.numpy_generator(seed, streams.SHUFFLE, number).permutation(len(other_N))
    other_N = other_N[order_N]
    return Triples(drawn.user_N[other_N], drawn.item_N[other_N - 1], drawn.item_N[other_N])


@dataclass(frozen=True)
class TripleModel(TrainedCentralMethod, ABC):
    """What central models of triples have in common; a subclass says how a batch moves them."""

    dim: int = 64
    batch: int = 2048
    optimiser: Adam | Sgd = Adam(lifetime="persistent")

    def __post_init__(self) -> None:
        for name, value in (("dim", self.dim), ("batch", self.batch)):
            if value < 1:
                raise TacitError(f"{name} is {value}; it must be at least 1.")

    @property
    def sampling(self) -> Sampling | None:
        return Sampling(negatives=1)

    @abstractmethod
    def tables(self, n_users: int, n_items: int) -> dict[str, Initializer]:
        """One row of each table: of users where it is called `user`, else of items."""

    @abstractmethod
    def descend(
        self, parameters: Params, triples: Triples, train: TrainView, step_rule: StepRule
    ) -> float:
        """All batches of an epoch, in place; the sum of the losses."""

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """First values (a user's depend on the user's id), and moments at zero."""
        found = {}
        for name, row in self.tables(train.n_users, train.n_items).items():
            if name == USER:
                found[name] = first_table_rows(row, name, seed, train.user_key_U, dtype)
                continue
            whole = Initializer((train.n_items, *row.shape), row.distribution, row.scale)
            found[name] = first_table_rows(whole, name, seed, _NOBODY, dtype)[0]
        return with_row_moments(found, self.optimiser)

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        """The parameters after epoch `number` (from 1), and its mean loss; what came in stays."""
        parameters = {name: value.clone() for name, value in parameters.items()}
        if self.optimiser.lifetime == "round":
            parameters = with_row_moments(without_moments(parameters), self.optimiser)
        triples = draw_triples(train, seed=seed, number=number)
        rule = self.step_rule(parameters, number, train.n_items)
        loss = self.descend(parameters, triples, train, rule)
        return parameters, loss / len(triples) if len(triples) else float("nan")

    def step_rule(self, parameters: Params, number: int, n_items: int) -> StepRule:
        kind = parameters[ITEMS].numpy().dtype.type
        return StepRule.of(self.optimiser, self.optimiser.rate_at(number, n_items), kind)


# One epoch of matrix factorisation under this loss, compiled: gradients by hand, lazy rows.


@compiled(fastmath=FAST, error_model="numpy")
def bpr_epoch(tables, triples, batch, step, plain):  # type: ignore[no-untyped-def]
    """All batches in place; returns the sum of the losses.

    `tables` are users, items and biases of items, each with its moments; `step` is (adam, beta1,
    beta2, constants). The slope of softplus(-x), x = p (q_i - q_j) + b_i - b_j, is -sigmoid(-x):
    over the size of the batch it gives the gradients of p, q_i, q_j, b_i and b_j. With `plain` a
    batch is one triple and the step plain descent: rows move where they lie, to the same numbers.
    """
    (users, items, biases), (user_N, item_N, other_N) = tables, triples
    user_table, item_table, bias_table = users[0], items[0], biases[0]
    adam, beta1, beta2, constants = step
    width, has_bias = user_table.shape[1], len(bias_table) > 0
    rate, decay = constants[0], constants[1]
    user_slope = np.empty((batch, width), user_table.dtype)
    item_slope = np.empty((2 * batch, width), user_table.dtype)
    bias_slope = np.empty((2 * batch, 1), user_table.dtype)
    both = np.empty(2 * batch, np.int64)
    one = np.empty(1, user_table.dtype)  # of the tables' own kind: numba would go on in float64
    loss = 0.0
    for low in range(0, len(item_N), batch):
        size = min(batch, len(item_N) - low)
        for t in range(size):
            i, j = item_N[low + t], other_N[low + t]
            p, q_i, q_j = user_table[user_N[low + t]], item_table[i], item_table[j]
            total = p[0] * (q_i[0] - q_j[0])
            for d in range(1, width):
                total += p[d] * (q_i[d] - q_j[d])
            if has_bias:
                total += bias_table[i, 0] - bias_table[j, 0]
            x = np.float64(total)
            small = np.exp(-abs(x))  # never overflows
            loss += max(-x, 0.0) + np.log1p(small)
            one[0] = -(small if x >= 0 else 1.0) / (1.0 + small) / size
            slope = one[0]
            if plain:
                for d in range(width):
                    own, with_i, with_j = p[d], q_i[d], q_j[d]
                    p[d] = own - rate * (slope * (with_i - with_j) + decay * own)
                    q_i[d] = with_i - rate * (slope * own + decay * with_i)
                    q_j[d] = with_j - rate * (-slope * own + decay * with_j)
                if has_bias:
                    b_i, b_j = bias_table[i, 0], bias_table[j, 0]
                    bias_table[i, 0] = b_i - rate * (slope + decay * b_i)
                    bias_table[j, 0] = b_j - rate * (-slope + decay * b_j)
                continue
            both[2 * t], both[2 * t + 1] = i, j
            for d in range(width):
                user_slope[t, d] = slope * (q_i[d] - q_j[d])
                item_slope[2 * t, d] = slope * p[d]
                item_slope[2 * t + 1, d] = -slope * p[d]
            bias_slope[2 * t, 0], bias_slope[2 * t + 1, 0] = slope, -slope
        if plain:
            continue
        rows, own = both[: 2 * size], user_N[low : low + size]
        step_samples(
            users[0], users[1], users[2], users[3], own, user_slope, adam, beta1, beta2, constants
        )
        step_samples(
            items[0], items[1], items[2], items[3], rows, item_slope, adam, beta1, beta2, constants
        )
        if has_bias:
            step_samples(
                biases[0],
                biases[1],
                biases[2],
                biases[3],
                rows,
                bias_slope,
                adam,
                beta1,
                beta2,
                constants,
            )
    return loss
