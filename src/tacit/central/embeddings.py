"""Models whose users and items are vectors that a graph or content has a part in.

An epoch goes once through all train interactions, shuffled, in batches; the optimiser steps every
parameter at every batch, also rows that a batch does not read, as most released code does. What a
score is made of, a vector for each user and each item, is made anew after an epoch from the whole
graph and kept beside the parameters. So scores are products, whatever the model is.

Negatives come from each user's own stream with the epoch as the round; dropout and the order of
interactions come from streams of the epoch. A run that was stopped goes on to the same numbers on
the CPU; on a GPU sums come in any order, and the last bits may differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, softplus

from tacit import streams
from tacit.central.pairs import STEPS, draw_unshuffled, first_table_rows
from tacit.core.central import TrainedCentralMethod
from tacit.core.optim import Adam, Sgd, stepped, with_fresh_moments, without_moments
from tacit.core.types import Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import History, TrainView
from tacit.errors import TacitError

USER_TABLE, ITEM_TABLE = "user", "items"
_SCORED_USERS, _SCORED_ITEMS, _SCORED_BIAS = "scored/user", "scored/items", "scored/bias"
_NOBODY = np.zeros(1, dtype=np.uint64)

# The interactions of one epoch, and an item that the user does not have beside each.


@dataclass(frozen=True, eq=False)
class Triples:
    """N rows in training order: who, an item of theirs, and one that is not; -1 where none is
    drawn."""

    user_N: np.ndarray  # int64
    positive_N: np.ndarray  # int64
    negative_N: np.ndarray  # int64

    def __len__(self) -> int:
        return len(self.user_N)

    def take(self, low: int, high: int, device: torch.device) -> Batch:
        columns = (self.user_N, self.positive_N, self.negative_N)
        return Batch(*(torch.from_numpy(column[low:high]).to(device) for column in columns))


@dataclass(frozen=True, eq=False)
class Batch:
    """B rows of `Triples`, where the parameters are."""

    user_B: Tensor
    positive_B: Tensor
    negative_B: Tensor

    def __len__(self) -> int:
        return len(self.user_B)


def draw_triples(train: TrainView, sampling: Sampling | None, *, seed: int, number: int) -> Triples:
    """Each interaction with each of its negatives, shuffled; who has every item has no rows. The
    negatives are those that a federated client with this seed draws in round `number`. Without
    `sampling` each interaction is there once, alone.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> drawn = draw_triples(train, Sampling(negatives=1), seed=0, number=1)
    >>> drawn.user_N.tolist(), drawn.positive_N.tolist(), drawn.negative_N.tolist()
    ([0], [0], [1])
    """
    if sampling is None:
        user_N, positive_N = train.positives.list_N, train.positives.item_N
        negative_N = np.full(len(user_N), -1, np.int64)
    else:
        drawn = draw_unshuffled(train, sampling, seed=seed, number=number)
        is_positive = drawn.label_N == 1
        place_N = np.arange(len(drawn))
        its_positive_N = np.maximum.accumulate(np.where(is_positive, place_N, 0))
        row_N = place_N[~is_positive]
        user_N, negative_N = drawn.user_N[row_N], drawn.item_N[row_N]
        positive_N = drawn.item_N[its_positive_N[row_N]]
    order_N = streams.numpy_generator(seed, streams.SHUFFLE, number).permutation(len(user_N))
    return Triples(user_N[order_N], positive_N[order_N], negative_N[order_N])


# Losses of a batch.


def ranking_loss(positive_B: Tensor, negative_B: Tensor) -> Tensor:
    """The mean of -log sigmoid of how far each positive is above its negative (BPR).

    >>> round(ranking_loss(torch.tensor([1.0]), torch.tensor([1.0])).item(), 6)
    0.693147
    """
    return softplus(negative_B - positive_B, threshold=40.0).mean()


def summed_norms(*matrices: Tensor) -> Tensor:
    """The sum of the matrices' norms, not squared, over the rows of the last: how the released
    code of this family bounds its vectors.

    >>> summed_norms(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0], [2.0]])).item()
    3.5
    """
    squares = torch.stack([matrix.square().sum() for matrix in matrices])
    return (squares + 1e-24).sqrt().sum() / len(matrices[-1])  # no slope is infinite at zero


def summed_squares(*matrices: Tensor) -> Tensor:
    """Half the sum of all squares, over the rows of the last: weight decay of what a batch reads.

    >>> summed_squares(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0], [2.0]])).item()
    7.25
    """
    squares = torch.stack([matrix.square().sum() for matrix in matrices])
    return squares.sum() / 2 / len(matrices[-1])


def contrast(one_BD: Tensor, other_BD: Tensor, temperature: float) -> Tensor:
    """Mean cross-entropy of finding each row's partner among all rows of the other, by cosine
    (InfoNCE). Rows of the same user or item count as others.

    >>> round(contrast(torch.eye(2), torch.eye(2), 1.0).item(), 6)
    0.313262
    """
    logit_BB = normalize(one_BD, dim=1) @ normalize(other_BD, dim=1).T / temperature
    return cross_entropy(logit_BB, torch.arange(len(one_BD), device=one_BD.device))


def dropped(value_BD: Tensor, rate: float, generator: np.random.Generator) -> Tensor:
    """Entries left out at a rate, and what stays scaled so that its mean is kept.

    >>> generator = np.random.default_rng(0)
    >>> sorted(dropped(torch.ones(1, 50), 0.5, generator).unique().tolist())
    [0.0, 2.0]
    """
    if rate == 0:
        return value_BD
    kept_BD = torch.from_numpy(generator.random(value_BD.shape, dtype=np.float32) >= rate)
    return value_BD * kept_BD.to(value_BD.device, value_BD.dtype) / (1 - rate)


def require_rate(name: str, rate: float) -> None:
    """Refuse a rate of dropout that leaves nothing.

    >>> require_rate("dropout", 0.5)
    """
    if not 0 <= rate < 1:
        raise TacitError(f"{name} is {rate}; it must be at least 0 and below 1.")


def require_weights(**weights: float) -> None:
    """Refuse terms of a loss that weigh less than nothing.

    >>> require_weights(penalty=0.1)
    """
    for name, weight in weights.items():
        if not weight >= 0:
            raise TacitError(f"{name} is {weight}; it must be at least 0.")


# How matrices begin.


def glorot(rows: int, columns: int) -> Initializer:
    """A matrix that begins with Glorot's uniform initializer.

    >>> glorot(2, 4).scale
    1.0
    """
    return Initializer((rows, columns), "uniform", (6 / (rows + columns)) ** 0.5)


def row_of(table: Initializer) -> Initializer:
    """One row of a table, as it would begin in the whole.

    >>> row_of(glorot(2, 4)).shape, row_of(glorot(2, 4)).scale
    ((4,), 1.0)
    """
    return replace(table, shape=table.shape[1:])


def layer(name: str, inputs: int, outputs: int) -> dict[str, Initializer]:
    """Weights and biases of a linear layer, uniform within the root of one over its inputs.

    >>> [init.scale for init in layer("gate", 4, 2).values()]
    [0.5, 0.5]
    """
    within = (1 / inputs) ** 0.5
    return {
        f"{name}.w": Initializer((inputs, outputs), "uniform", within),
        f"{name}.b": Initializer((outputs,), "uniform", within),
    }


def linear(p: Params, name: str, value_NF: Tensor) -> Tensor:
    """What a layer makes of rows.

    >>> p = {"gate.w": torch.eye(1), "gate.b": torch.ones(1)}
    >>> linear(p, "gate", torch.tensor([[2.0]])).item()
    3.0
    """
    return value_NF @ p[f"{name}.w"] + p[f"{name}.b"]


# Training.


@dataclass(frozen=True, eq=False)
class Embeddings:
    """What scores are made of: user · item, plus the item's bias where the model has one."""

    user_UD: Tensor
    item_ID: Tensor
    bias_I: Tensor | None = None


Known = TypeVar("Known")  # what a model knows of users and items beside parameters: graphs, content
_KNOWN: WeakKeyDictionary[TrainView, dict[Any, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class EmbeddingModel(TrainedCentralMethod, ABC, Generic[Known]):
    """A model of vectors; a subclass declares its parameters, its vectors and its loss.

    Somebody new gets a vector that ranks the own items above others (BPR), by descent against the
    items' vectors as they are; this is ours for all models of the family.
    """

    runs_on_gpu: ClassVar[bool] = True

    dim: int = 64
    batch: int = 2048
    optimiser: Adam | Sgd = Adam(lifetime="persistent")

    def __post_init__(self) -> None:
        for name, value in (("dim", self.dim), ("batch", self.batch)):
            if value < 1:
                raise TacitError(f"{name} is {value}; it must be at least 1.")

    @abstractmethod
    def user_tables(self, train: TrainView) -> dict[str, Initializer]:
        """One row of each table that has a row for every user."""

    @abstractmethod
    def parameters(self, train: TrainView) -> dict[str, Initializer]:
        """All other parameters that begin with a draw."""

    def given(self, train: TrainView) -> dict[str, np.ndarray]:
        """Parameters that begin with values of the data."""
        return {}

    @abstractmethod
    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Known:
        """What is the same in all epochs; made once for a train view."""

    def in_epoch(self, known: Known, seed: int, number: int) -> Known:
        """What is known in one epoch of training; scores are made of all that is known."""
        return known

    @abstractmethod
    def embeddings(self, p: Params, known: Known) -> Embeddings: ...

    @abstractmethod
    def batch_loss(
        self, p: Params, known: Known, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        """The mean loss of a batch; `generator` is for dropout."""

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        values = {
            name: first_table_rows(init, name, seed, train.user_key_U, dtype)
            for name, init in self.user_tables(train).items()
        }
        for name, init in self.parameters(train).items():
            values[name] = first_table_rows(init, name, seed, _NOBODY, dtype)[0]
        for name, value in self.given(train).items():
            values[name] = torch.from_numpy(value).to(dtype)
        return self._scored(with_fresh_moments(values, self.optimiser), train)

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        parameters = dict(parameters)
        if self.optimiser.lifetime == "round":
            parameters = with_fresh_moments(without_moments(parameters), self.optimiser)
        known = self.in_epoch(self._known(parameters, train), seed, number)
        triples = draw_triples(train, self.sampling, seed=seed, number=number)
        generator = streams.numpy_generator(seed, streams.NETWORK_DROPOUT, number)
        rate = self.optimiser.rate_at(number, train.n_items)
        device = parameters[USER_TABLE].device
        total = torch.zeros((), dtype=torch.float64, device=device)
        for low in range(0, len(triples), self.batch):
            batch = triples.take(low, low + self.batch, device)
            moving = {
                name: value.detach().requires_grad_()
                for name, value in without_moments(parameters).items()
            }
            loss = self.batch_loss(moving, known, batch, generator)
            gradients = torch.autograd.grad(loss, list(moving.values()), materialize_grads=True)
            slope = dict(zip(moving, gradients, strict=True))
            parameters = stepped(parameters, slope, self.optimiser, rate)
            total += loss.detach() * len(batch)
        mean = total.item() / len(triples) if len(triples) else float("nan")
        return self._scored(parameters, train), mean

    def _known(self, parameters: Params, train: TrainView) -> Known:
        like = parameters[USER_TABLE]
        made, key = _KNOWN.setdefault(train, {}), (self, like.dtype, like.device)
        if key not in made:
            made[key] = self.known(train, like.dtype, like.device)
        found: Known = made[key]
        return found

    @torch.no_grad()
    def _scored(self, parameters: Params, train: TrainView) -> Params:
        """With the vectors that scores are made of."""
        made = self.embeddings(without_moments(parameters), self._known(parameters, train))
        scored = {_SCORED_USERS: made.user_UD, _SCORED_ITEMS: made.item_ID}
        if made.bias_I is not None:
            scored[_SCORED_BIAS] = made.bias_I
        # copies: a checkpoint takes no two that lie in the same memory, as a table and its rows do
        return parameters | {name: value.clone() for name, value in scored.items()}

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of known users."""
        return self._products(parameters, parameters[_SCORED_USERS][torch.from_numpy(user_B)])

    def _products(self, parameters: Params, user_BD: Tensor) -> np.ndarray:
        logit_BI = user_BD @ parameters[_SCORED_ITEMS].T
        if _SCORED_BIAS in parameters:
            logit_BI = logit_BI + parameters[_SCORED_BIAS]
        return np.asarray(logit_BI.cpu().numpy())

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new: a vector of their own is fitted, and nothing else moves.

        In training a user moves at every batch; here an epoch has up to STEPS batches.
        """
        item_ID = parameters[_SCORED_ITEMS]
        bias_I = parameters.get(_SCORED_BIAS, item_ID.new_zeros(len(item_ID)))
        train = TrainView.of_one(history, len(item_ID), name)
        own = {USER_TABLE: item_ID.new_zeros(item_ID.shape[1])}
        own = with_fresh_moments(own, self.optimiser)
        for number in range(1, epochs + 1):
            triples = draw_triples(train, Sampling(negatives=1), seed=seed, number=number)
            rate = self.optimiser.rate_at(number, len(item_ID))
            size = max(1, -(-len(triples) // STEPS))
            for low in range(0, len(triples), size):
                batch = triples.take(low, low + size, item_ID.device)
                user_D = own[USER_TABLE].detach().requires_grad_()
                logits = [
                    item_ID[item_B] @ user_D + bias_I[item_B]
                    for item_B in (batch.positive_B, batch.negative_B)
                ]
                [slope_D] = torch.autograd.grad(ranking_loss(*logits), [user_D])
                own = stepped(own, {USER_TABLE: slope_D}, self.optimiser, rate)
        return self._products(parameters, own[USER_TABLE][None])[0]
