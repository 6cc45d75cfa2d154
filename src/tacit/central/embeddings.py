"""Models whose users and items are vectors that a graph or content has a part in.

An epoch goes once through all train interactions, shuffled, in batches, and every parameter moves
at every batch (`central/training.py`). What a score is made of, a vector for each user and each
item, is made anew after an epoch from the whole graph and kept beside the parameters. So scores
are products, whatever the model is.

Negatives come from each user's own stream with the epoch as the round; dropout and the order of
interactions come from streams of the epoch. A run that was stopped goes on to the same numbers on
the CPU; on a GPU sums come in any order, and the last bits may differ.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, softplus

from tacit import streams
from tacit.central.samples import Batch, Triples, draw_triples
from tacit.central.training import (
    STEPS,
    DenseModel,
    Epoch,
    Slope,
    by_autograd,
    drawn,
    drawn_by_user,
    require_at_least_one,
)
from tacit.core.optim import Adam, Sgd, stepped, with_optimizer_state
from tacit.core.types import Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import History, TrainView
from tacit.errors import TacitError

USER_TABLE, ITEM_TABLE = "user", "items"

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
class EmbeddingModel(DenseModel[Triples], Generic[Known]):
    """A model of vectors; a subclass declares its parameters, its vectors and the loss of a batch,
    or instead of the loss its gradients by hand (`slope`).

    Somebody new gets a vector that ranks the own items above others (BPR), by descent against the
    items' vectors as they are; this is ours for all models of the family.
    """

    runs_on_gpu: ClassVar[bool] = True
    SCORED: ClassVar[str] = "scored/"  # how the names begin of what scores are made of

    dim: int = 64
    batch: int = 2048
    optimiser: Adam | Sgd = Adam(lifetime="persistent")

    def __post_init__(self) -> None:
        require_at_least_one(self, "dim", "batch")

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

    def batch_loss(
        self, p: Params, known: Known, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        """The mean loss of a batch; `generator` is for dropout."""
        raise NotImplementedError

    def slope(
        self, p: Params, known: Known, batch: Batch, generator: np.random.Generator
    ) -> tuple[Tensor, Params]:
        """The sum of the losses of a batch, and the gradients of their mean."""
        loss, gradient = by_autograd(p, lambda p: self.batch_loss(p, known, batch, generator))
        return loss * len(batch), gradient

    def learnt(self, parameters: Params) -> Params:
        values = super().learnt(parameters)
        return {name: value for name, value in values.items() if not name.startswith(self.SCORED)}

    def first_values(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        given = {name: torch.from_numpy(v).to(dtype) for name, v in self.given(train).items()}
        tables = drawn_by_user(self.user_tables(train), seed, dtype, train)
        return tables | drawn(self.parameters(train), seed, dtype) | given

    def draw(self, train: TrainView, seed: int, number: int) -> Triples:
        return draw_triples(train, self.sampling, seed=seed, number=number)

    def slopes(self, parameters: Params, samples: Triples, epoch: Epoch) -> Iterator[Slope]:
        known = self.known_of(parameters, epoch.train)
        known = self.in_epoch(known, epoch.seed, epoch.number)
        generator = streams.numpy_generator(epoch.seed, streams.NETWORK_DROPOUT, epoch.number)
        # to the device at once: every copy there waits for all that is under way
        everything = samples.take(0, len(samples), parameters[USER_TABLE].device)
        for low in range(0, len(samples), self.batch):
            batch = everything.part(low, low + self.batch)
            yield partial(self._slope_of, known, batch, generator)

    def _slope_of(
        self, known: Known, batch: Batch, generator: np.random.Generator, p: Params
    ) -> tuple[Tensor, Params]:
        return self.slope(p, known, batch, generator)

    def known_of(self, parameters: Params, train: TrainView) -> Known:
        """What is known, where the parameters are and of their kind."""
        like = parameters[USER_TABLE]
        made, key = _KNOWN.setdefault(train, {}), (self, like.dtype, like.device)
        if key not in made:
            made[key] = self.known(train, like.dtype, like.device)
        found: Known = made[key]
        return found

    @torch.no_grad()
    def finished(self, parameters: Params, train: TrainView) -> Params:
        """With the vectors that scores are made of."""
        made = self.embeddings(self.learnt(parameters), self.known_of(parameters, train))
        scored = {"user": made.user_UD, "items": made.item_ID}
        if made.bias_I is not None:
            scored["bias"] = made.bias_I
        # copies: a checkpoint takes no two that lie in the same memory, as a table and its rows do
        return parameters | {f"{self.SCORED}{name}": v.clone() for name, v in scored.items()}

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of known users."""
        user_UD = parameters[f"{self.SCORED}user"]
        return self._products(parameters, user_UD[torch.from_numpy(user_B)])

    def _products(self, parameters: Params, user_BD: Tensor) -> np.ndarray:
        logit_BI = user_BD @ parameters[f"{self.SCORED}items"].T
        if f"{self.SCORED}bias" in parameters:
            logit_BI = logit_BI + parameters[f"{self.SCORED}bias"]
        return np.asarray(logit_BI.cpu().numpy())

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new: a vector of their own is fitted, and nothing else moves.

        In training a user moves at every batch; here an epoch has up to STEPS batches.
        """
        item_ID = parameters[f"{self.SCORED}items"]
        bias_I = parameters.get(f"{self.SCORED}bias", item_ID.new_zeros(len(item_ID)))
        train = TrainView.of_one(history, len(item_ID), name)
        own = {USER_TABLE: item_ID.new_zeros(item_ID.shape[1])}
        own = with_optimizer_state(own, self.optimiser)
        for number in range(1, epochs + 1):
            triples = draw_triples(train, Sampling(negatives=1), seed=seed, number=number)
            rate = self.optimiser.rate_at(number, len(item_ID))
            size = max(1, -(-len(triples) // STEPS))
            for low in range(0, len(triples), size):
                batch = triples.take(low, low + size, item_ID.device)
                _, slope = by_autograd(
                    {USER_TABLE: own[USER_TABLE]}, partial(_newcomer_loss, item_ID, bias_I, batch)
                )
                own = stepped(own, slope, self.optimiser, rate)
        return self._products(parameters, own[USER_TABLE][None])[0]


def _newcomer_loss(item_ID: Tensor, bias_I: Tensor, batch: Batch, p: Params) -> Tensor:
    positive_B, negative_B = (
        item_ID[item_B] @ p[USER_TABLE] + bias_I[item_B]
        for item_B in (batch.positive_B, batch.negative_B)
    )
    return ranking_loss(positive_B, negative_B)
