"""Central training batch after batch: one loop for all models that descend on everybody's samples.

A model declares its parameters, what an epoch reads and how a batch moves what it reads. There are
two kinds. Of a `DenseModel` every parameter moves at every batch, by the gradient of a loss or by
one that is written by hand. Of a `RowModel` only the rows that a batch reads move, with Adam too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.central.rows import StepRule, step_rows, with_row_state
from tacit.central.samples import PairSamples, Triples
from tacit.central.steps import step_tables
from tacit.core.central import TrainedCentralMethod
from tacit.core.optim import Adam, Sgd, with_optimizer_state, without_optimizer_state
from tacit.core.types import Initializer, Params, draw_parameter
from tacit.data.views import History, TrainView
from tacit.errors import TacitError

NOBODY = np.zeros(1, dtype=np.uint64)


def first_table_rows(
    init: Initializer, name: str, seed: int, name_U: np.ndarray, dtype: torch.dtype
) -> Tensor:
    """The first value of a parameter for each name, stacked; name 0 is nobody's.

    >>> user = np.array([7], np.uint64)
    >>> first_table_rows(Initializer((2,)), "user", 0, user, torch.float32).tolist()
    [[0.0, 0.0]]
    """
    return draw_parameter(init, seed, streams.INIT, streams.name_of(name), name_U, dtype)


def drawn(declared: dict[str, Initializer], seed: int, dtype: torch.dtype) -> Params:
    """First values of parameters that belong to nobody.

    >>> drawn({"w": Initializer((2,))}, 0, torch.float32)["w"].tolist()
    [0.0, 0.0]
    """
    return {
        name: first_table_rows(init, name, seed, NOBODY, dtype)[0]
        for name, init in declared.items()
    }


def drawn_by_user(
    declared: dict[str, Initializer], seed: int, dtype: torch.dtype, train: TrainView
) -> Params:
    """First values of tables that have a row for every user; a row depends on the user's id."""
    return {
        name: first_table_rows(init, name, seed, train.user_key_U, dtype)
        for name, init in declared.items()
    }


def require_at_least_one(method: object, *names: str) -> None:
    """Refuse a size that is none.

    >>> require_at_least_one(Initializer((2,), scale=1.0), "scale")
    """
    for name in names:
        if getattr(method, name) < 1:
            raise TacitError(f"{name} is {getattr(method, name)}; it must be at least 1.")


# The loop.


class Samples(Protocol):
    """What an epoch reads: rows in training order, cut into batches."""

    def __len__(self) -> int: ...
    @property
    def losses(self) -> int:
        """How many losses an epoch is the mean of."""
        ...


AnySamples = TypeVar("AnySamples", bound=Samples)


@dataclass(frozen=True, eq=False)
class Epoch:
    """The epoch that is played: on what, which one, and the rate of its steps."""

    train: TrainView
    seed: int
    number: int
    rate: float


class BatchTrained(TrainedCentralMethod, ABC, Generic[AnySamples]):
    """A model that is trained batch after batch; parameters and optimizer state are one dictionary,
    in which the state of "w" is called "w/..."."""

    batch: int
    optimiser: Adam | Sgd

    @abstractmethod
    def first_values(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        """What is learnt, before the first epoch."""

    @abstractmethod
    def with_state(self, values: Params) -> Params:
        """The values, with what the optimiser knows of them before the first step."""

    @abstractmethod
    def draw(self, train: TrainView, seed: int, number: int) -> AnySamples:
        """The samples of epoch `number` (from 1), in training order."""

    @abstractmethod
    def trained(
        self, parameters: Params, samples: AnySamples, epoch: Epoch
    ) -> tuple[Params, float]:
        """The parameters after all batches, and the sum of the losses; what came in stays."""

    def learnt(self, parameters: Params) -> Params:
        """The parameters that descend."""
        return without_optimizer_state(parameters)

    def finished(self, parameters: Params, train: TrainView) -> Params:
        """The parameters with what scores are made of, where that is more than they."""
        return parameters

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """First values, and optimizer state at zero."""
        return self.finished(self.with_state(self.first_values(train, seed, dtype)), train)

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        if self.optimiser.lifetime == "round":
            parameters = self.with_state(self.learnt(parameters))
        epoch = Epoch(train, seed, number, self.optimiser.rate_at(number, train.n_items))
        samples = self.draw(train, seed, number)
        parameters, total = self.trained(parameters, samples, epoch)
        mean = total / samples.losses if samples.losses else float("nan")
        return self.finished(parameters, train), mean


# Every parameter moves at every batch.

Slope = Callable[[Params], tuple[Tensor, Params]]  # the sum of the losses, gradients of their mean


def by_autograd(
    p: Params, loss: Callable[[Params], Tensor], divisor: int = 1
) -> tuple[Tensor, Params]:
    """A loss, and the gradient of it over `divisor` by each parameter; zeros where a parameter has
    no part in it.

    >>> found, gradient = by_autograd({"w": torch.tensor(3.0)}, lambda p: p["w"] ** 2, 2)
    >>> found.item(), gradient["w"].item()
    (9.0, 3.0)
    """
    moving = {name: value.detach().requires_grad_() for name, value in p.items()}
    found = loss(moving)
    gradients = torch.autograd.grad(found / divisor, list(moving.values()), materialize_grads=True)
    return found.detach(), dict(zip(moving, gradients, strict=True))


class DenseModel(BatchTrained[AnySamples]):
    """The optimiser steps every parameter at every batch, also rows that a batch does not read, as
    most released code does."""

    @abstractmethod
    def slopes(self, parameters: Params, samples: AnySamples, epoch: Epoch) -> Iterator[Slope]:
        """For each batch, what its loss and its gradients are. `parameters` are those that the
        epoch begins with."""

    def with_state(self, values: Params) -> Params:
        return with_optimizer_state(values, self.optimiser)

    def trained(
        self, parameters: Params, samples: AnySamples, epoch: Epoch
    ) -> tuple[Params, float]:
        device = next(iter(parameters.values())).device
        total = torch.zeros((), dtype=torch.float64, device=device)
        moving = {
            name: value.clone(memory_format=torch.contiguous_format)
            for name, value in parameters.items()
        }
        for slope in self.slopes(parameters, samples, epoch):
            loss, gradient = slope(self.learnt(moving))
            moving = step_tables(moving, gradient, self.optimiser, epoch.rate)
            total += loss
        return moving, total.item()


# Only the rows that a batch reads move.
#
# While nobody reads a row, its optimizer state stands still ("lazy" Adam). Dense
# Adam lets a row drift on its old state between two reads; rare rows then move further in an
# epoch, so its rates and numbers of epochs are not quite ours.
#
# Plain descent on a mean loss hardly moves anything: a row has one or two samples in a batch of
# 256, so its step is about rate/256 of its gradient. `Sgd` needs a rate a few hundred times higher
# than usual (`rate=25.6` is 0.1 on the sum over a batch).
#
# An item without any train interaction is only ever drawn as a negative, if at all: its row stays
# near its tiny first draw or is pushed down. Nothing special is done about it.

TOWER = "tower"  # all parameters of the tower as one row, so that one step moves them
STEPS = 64  # an epoch of a newcomer has at most so many
RowSamples = TypeVar("RowSamples", PairSamples, Triples)


def _whole_tables(rows: dict[str, Initializer], count: int) -> dict[str, Initializer]:
    return {name: replace(row, shape=(count, *row.shape)) for name, row in rows.items()}


class RowModel(BatchTrained[RowSamples]):
    """A model that scores from a row of a user and a row of an item; a subclass declares them, and
    the loss of a batch. A compiled kernel may play an epoch in the place of `descend`."""

    @abstractmethod
    def user_tables(self) -> dict[str, Initializer]:
        """One row of each table that has a row for every user."""

    @abstractmethod
    def item_tables(self) -> dict[str, Initializer]: ...
    def tower(self) -> dict[str, Initializer]:
        """Parameters that every sample goes through; none for a dot product."""
        return {}

    @abstractmethod
    def batch_loss(self, p: Params, batch: RowSamples, divisor: int) -> Tensor:
        """The sum of the losses of a batch over `divisor`. `p` has the tower's parameters, a row of
        each user table for each sample, or one for all, and rows of item tables as they are read.
        """

    @abstractmethod
    def score_rows(self, parameters: Params, rows: Params) -> np.ndarray:
        """(B, I) logits of B users given by their rows."""

    def newcomer_batch(self, count: int) -> int:
        """How many of a newcomer's samples make a step. In training hardly two samples of a user
        are in one batch, so a user takes about one step for each: here too, up to STEPS."""
        return max(1, -(-count // STEPS))

    def first_values(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        items = _whole_tables(self.item_tables(), train.n_items)
        tables = drawn_by_user(self.user_tables(), seed, dtype, train) | drawn(items, seed, dtype)
        if tower := drawn(self.tower(), seed, dtype):
            pieces = [value.reshape(1, -1) for value in tower.values()]
            tables[TOWER] = torch.cat(pieces, dim=1)
        return tables

    def with_state(self, values: Params) -> Params:
        return with_row_state(values, self.optimiser)

    def trained(
        self, parameters: Params, samples: RowSamples, epoch: Epoch
    ) -> tuple[Params, float]:
        # by numpy: torch would copy with its threads, which then wait busily for the next task
        parameters = {
            name: torch.from_numpy(value.numpy().copy()) for name, value in parameters.items()
        }
        rule = self.step_rule(parameters, epoch.number, epoch.train.n_items)
        return parameters, self.descend(parameters, samples, rule)

    def step_rule(self, parameters: Params, number: int, n_items: int) -> StepRule:
        kind = next(iter(parameters.values())).numpy().dtype.type
        return StepRule.of(self.optimiser, self.optimiser.rate_at(number, n_items), kind)

    def descend(self, parameters: Params, samples: RowSamples, step_rule: StepRule) -> float:
        """All batches of an epoch, in place; the sum of the losses."""
        total = 0.0
        for low in range(0, len(samples), self.batch):
            some = samples.part(low, low + self.batch)
            row_M = dict.fromkeys(self.user_tables(), some.user_N)
            row_M |= dict.fromkeys(self.item_tables(), some.read_M)
            if TOWER in parameters:
                row_M[TOWER] = np.zeros(1, dtype=np.int64)
            moving = {
                name: parameters[name][torch.from_numpy(rows)] for name, rows in row_M.items()
            }
            loss, slope = self.slope(moving, {}, some, len(some))
            total += loss * len(some)
            for name, gradient in slope.items():
                step_rows(parameters, name, row_M[name], gradient, step_rule)
        return total

    def slope(
        self, moving: Params, frozen: Params, batch: RowSamples, divisor: int
    ) -> tuple[float, dict[str, np.ndarray]]:
        """The loss of a batch and its gradient by what moves: a row for each that was read."""
        loss, gradients = by_autograd(
            moving, lambda p: self.batch_loss(self.unpacked(frozen | p), batch, divisor)
        )
        found = {name: gradient.contiguous().numpy() for name, gradient in gradients.items()}
        return loss.item(), found

    def unpacked(self, p: Params) -> Params:
        """With the tower's parameters by name instead of its one row."""
        if TOWER not in p:
            return p
        inits = self.tower()
        pieces = p[TOWER][0].split([init.count for init in inits.values()])
        named = zip(inits.items(), pieces, strict=True)
        return p | {name: piece.view(init.shape) for (name, init), piece in named}

    def n_items(self, parameters: Params) -> int:
        return len(parameters[next(iter(self.item_tables()))])

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of known users."""
        rows = {name: parameters[name][torch.from_numpy(user_B)] for name in self.user_tables()}
        return self.score_rows(parameters, rows)

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new, whose own rows are fitted and nothing else."""
        rows = self.newcomer_rows(parameters, history, name=name, seed=seed, epochs=epochs)
        return self.score_rows(parameters, rows)[0]

    def newcomer_rows(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> Params:
        """The newcomer's rows, (1, D) in each user table, after descent on one history.

        >>> from tacit.methods import Mf
        >>> items, one = torch.eye(4) * 3, History(np.array([2]))
        >>> rows = Mf(dim=4).newcomer_rows({"items": items}, one, name=1, seed=0, epochs=20)
        >>> int(rows["user"][0].argmax())
        2
        """
        n_items, users = self.n_items(parameters), self.user_tables()
        tables = without_optimizer_state(parameters)
        train = TrainView.of_one(history, n_items, name)
        dtype = next(iter(parameters.values())).dtype
        own = self.with_state(drawn_by_user(users, seed, dtype, train))
        only = np.zeros(1, dtype=np.int64)
        for number in range(1, epochs + 1):
            samples = self.draw(train, seed, number)
            step_rule = self.step_rule(parameters, number, n_items)
            size = self.newcomer_batch(len(samples))
            for low in range(0, len(samples), size):
                some = samples.part(low, low + size)
                read_M = torch.from_numpy(some.read_M)
                frozen = tables | {key: parameters[key][read_M] for key in self.item_tables()}
                moving = {key: own[key] for key in users}
                # each sample weighs what it weighs in training, where a batch is everybody's
                _, slope = self.slope(moving, frozen, some, self.batch)
                for key, gradient in slope.items():
                    step_rows(own, key, only, gradient, step_rule)
        return {key: own[key] for key in users}
