"""Models that score a pair (user, item) from a row of each, trained on all histories at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.central.rows import StepRule, step_rows, with_row_moments
from tacit.compiled import compiled
from tacit.core.central import TrainedCentralMethod
from tacit.core.optim import Adam, Sgd, without_moments
from tacit.core.types import Initializer, Params, draw_parameter
from tacit.data.batches import Drawing, positives_of
from tacit.data.sampling import Sampling, client_keys, draw_ordered, samples_per_user
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.parts.objectives import BinaryCrossEntropy

# The samples of one epoch over everybody: each user's own draws, shuffled across users.


@dataclass(frozen=True, eq=False)
class PairSamples:
    """N samples in training order: who, which item, and 1 for a positive or 0.

    >>> len(PairSamples(np.array([0]), np.array([4]), np.array([1], np.uint8)))
    1
    """

    user_N: np.ndarray  # int64
    item_N: np.ndarray  # int64
    label_N: np.ndarray  # uint8

    def __len__(self) -> int:
        return len(self.item_N)


def draw_pairs(train: TrainView, sampling: Sampling, *, seed: int, number: int) -> PairSamples:
    """Everybody's positives and negatives of epoch `number` (from 1).

    Negatives come from each user's own stream with the epoch as the round: they are the ones that a
    federated client with this seed draws in that round. Only the shuffle mixes users.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1]), np.array([0, 1]), n_lists=2)
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> drawn = draw_pairs(train, Sampling(negatives=1), seed=0, number=1)
    >>> sorted(zip(drawn.user_N.tolist(), drawn.item_N.tolist(), drawn.label_N.tolist()))
    [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1)]
    """
    drawn = draw_unshuffled(train, sampling, seed=seed, number=number)
    order_N = streams.numpy_generator(seed, streams.SHUFFLE, number).permutation(len(drawn))
    return PairSamples(drawn.user_N[order_N], drawn.item_N[order_N], drawn.label_N[order_N])


def draw_unshuffled(train: TrainView, sampling: Sampling, *, seed: int, number: int) -> PairSamples:
    """The same samples user after user: each positive, in the order of `positives`, and then its
    negatives."""
    count_U = samples_per_user(train, sampling)
    start_U1 = np.concatenate([[0], np.cumsum(count_U)]).astype(np.int64)
    item_N = np.empty(int(start_U1[-1]), np.int64)
    label_N = np.empty(int(start_U1[-1]), np.uint8)
    _draw(Drawing.of(train, sampling, seed, number), start_U1, item_N, label_N)
    return PairSamples(np.repeat(np.arange(train.n_users), count_U), item_N, label_N)


@compiled(error_model="numpy")
def _draw(drawing, start, item_N, label_N):  # type: ignore[no-untyped-def]
    """The samples of everybody, user after user, in the order in which they are drawn."""
    blocked = np.zeros(drawing.n_items, np.uint8)
    hidden_start = drawing.hidden_start_U1
    for user in range(len(drawing.user_key_U)):
        key, _ = client_keys(
            drawing.seed, drawing.round_number, 0, drawing.redraw, drawing.user_key_U[user]
        )
        draw_ordered(
            key,
            positives_of(drawing, user),
            drawing.hidden_item_N[hidden_start[user] : hidden_start[user + 1]],
            drawing.n_items,
            drawing.negatives,
            item_N[start[user] : start[user + 1]],
            label_N[start[user] : start[user + 1]],
            blocked,
        )


# A person who joined after central training: own rows are fitted, all others stay as they are.

STEPS = 64  # an epoch of a newcomer has at most so many


class Fittable(Protocol):
    """What a model of pairs must tell to be fitted to somebody new."""

    @property
    def batch(self) -> int: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def optimiser(self) -> Adam | Sgd: ...
    def user_tables(self) -> dict[str, Initializer]: ...
    def item_tables(self) -> dict[str, Initializer]: ...
    def n_items(self, parameters: Params) -> int: ...
    def step_rule(self, parameters: Params, number: int, n_items: int) -> StepRule: ...
    def slope(
        self, moving: Params, still: Params, label_B: np.ndarray, divisor: int
    ) -> tuple[float, dict[str, np.ndarray]]: ...


def first_table_rows(
    init: Initializer, name: str, seed: int, name_U: np.ndarray, dtype: torch.dtype
) -> Tensor:
    """The first value of a parameter for each name, stacked; name 0 is nobody's.

    >>> user = np.array([7], np.uint64)
    >>> first_table_rows(Initializer((2,)), "user", 0, user, torch.float32).tolist()
    [[0.0, 0.0]]
    """
    return draw_parameter(init, seed, streams.INIT, streams.name_of(name), name_U, dtype)


def newcomer_rows(
    model: Fittable, parameters: Params, history: History, *, name: int, seed: int, epochs: int
) -> Params:
    """The newcomer's rows, (1, D) in each user table, after descent on one history.

    In training hardly two samples of a user are in one batch, so a user takes about one step for
    each of its samples: here too, up to STEPS in an epoch.

    >>> from tacit.methods import Mf
    >>> items, one = torch.eye(4) * 3, History(np.array([2]))
    >>> rows = newcomer_rows(Mf(dim=4), {"items": items}, one, name=1, seed=0, epochs=20)
    >>> int(rows["user"][0].argmax())
    2
    """
    n_items, users, tables = (
        model.n_items(parameters),
        model.user_tables(),
        without_moments(parameters),
    )
    train = TrainView.of_one(history, n_items, name)
    key_U = train.user_key_U
    dtype = next(iter(parameters.values())).dtype
    own = {
        parameter: first_table_rows(init, parameter, seed, key_U, dtype)
        for parameter, init in users.items()
    }
    own = with_row_moments(own, model.optimiser)
    only = np.zeros(1, dtype=np.int64)
    for number in range(1, epochs + 1):
        samples = draw_pairs(train, model.sampling, seed=seed, number=number)
        step_rule = model.step_rule(parameters, number, n_items)
        size = max(1, -(-len(samples) // STEPS))
        for low in range(0, len(samples), size):
            item_B = torch.from_numpy(samples.item_N[low : low + size])
            still = tables | {
                parameter: parameters[parameter][item_B] for parameter in model.item_tables()
            }
            moving = {parameter: own[parameter] for parameter in users}
            # each sample weighs what it weighs in training, where a batch is everybody's
            _, slope = model.slope(moving, still, samples.label_N[low : low + size], model.batch)
            for parameter, gradient in slope.items():
                step_rows(own, parameter, only, gradient, step_rule)
    return {parameter: own[parameter] for parameter in users}


# Models that score a pair (user, item) from a row of each, trained on all histories at once.
#
# Samples are everybody's positives and 4 negatives each, drawn anew in every epoch and shuffled
# across users; the loss is the mean binary cross-entropy on logits of a mini-batch. Only the rows
# that a batch reads move, with Adam too: while nobody reads a row, its moments and its count of
# steps stand still ("lazy" Adam). Dense Adam, which most released code uses, lets a row drift on
# its old moments between two reads; rare rows then move further in an epoch, so its rates and
# numbers of epochs are not quite ours.
#
# Plain descent on a mean loss hardly moves anything: a row has one or two samples in a batch of
# 256, so its step is about rate/256 of its gradient. `Sgd` needs a rate a few hundred times higher
# than usual (`rate=25.6` is 0.1 on the sum over a batch).
#
# An item without any train interaction is only ever drawn as a negative, if at all: its row stays
# near its tiny first draw or is pushed down. Nothing special is done about it.

TOWER = "tower"  # all parameters of the tower as one row, so that one step moves them
TABLE_SCALE = 0.01  # standard deviation of all tables at the start
_NOBODY = np.zeros(1, dtype=np.uint64)
_PAIRS_AT_ONCE = 1 << 14  # scored together, so that what hidden layers make of them stays in cache


@dataclass(frozen=True)
class PairModel(TrainedCentralMethod, ABC):
    """What central models of pairs have in common; a subclass declares its parameters and its
    logit."""

    dim: int = 32
    batch: int = 256
    sampling: Sampling = Sampling()
    optimiser: Adam | Sgd = Adam(lifetime="persistent")

    def __post_init__(self) -> None:
        for name, value in (("dim", self.dim), ("batch", self.batch)):
            if value < 1:
                raise TacitError(f"{name} is {value}; it must be at least 1.")

    @abstractmethod
    def user_tables(self) -> dict[str, Initializer]:
        """One row of each table that has a row for every user."""

    @abstractmethod
    def item_tables(self) -> dict[str, Initializer]: ...
    @abstractmethod
    def tower(self) -> dict[str, Initializer]:
        """Parameters that every pair goes through; none for a dot product."""

    @abstractmethod
    def logit(self, p: Params) -> Tensor:
        """Logits of pairs; `p` holds the tower's parameters, and rows whose leading axes
        broadcast."""

    @property
    def kernel(self) -> str | None:
        """The kernel that plays an epoch; None where `descend` takes batch after batch."""
        return None

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """First values (a user's depend on the user's id), and moments at zero."""
        tables = {
            name: first_table_rows(init, name, seed, train.user_key_U, dtype)
            for name, init in self.user_tables().items()
        }
        for name, row in self.item_tables().items():
            init = Initializer((train.n_items, *row.shape), row.distribution, row.scale)
            tables[name] = first_table_rows(init, name, seed, _NOBODY, dtype)[0]
        tower = [
            first_table_rows(init, name, seed, _NOBODY, dtype).reshape(1, -1)
            for name, init in self.tower().items()
        ]
        if tower:
            tables[TOWER] = torch.cat(tower, dim=1)
        return with_row_moments(tables, self.optimiser)

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        """The parameters after epoch `number` (from 1), and its mean loss; what came in stays as
        is."""
        parameters = {name: value.clone() for name, value in parameters.items()}
        if self.optimiser.lifetime == "round":
            parameters = with_row_moments(without_moments(parameters), self.optimiser)
        samples = draw_pairs(train, self.sampling, seed=seed, number=number)
        loss = self.descend(parameters, samples, self.step_rule(parameters, number, train.n_items))
        return parameters, loss / len(samples) if len(samples) else float("nan")

    def step_rule(self, parameters: Params, number: int, n_items: int) -> StepRule:
        kind = next(iter(parameters.values())).numpy().dtype.type
        return StepRule.of(self.optimiser, self.optimiser.rate_at(number, n_items), kind)

    def descend(self, parameters: Params, samples: PairSamples, step_rule: StepRule) -> float:
        """All batches of an epoch, in place; the sum of the losses."""
        rows = dict.fromkeys(self.user_tables(), samples.user_N)
        rows |= dict.fromkeys(self.item_tables(), samples.item_N)
        total = 0.0
        for low in range(0, len(samples), self.batch):
            label_B = samples.label_N[low : low + self.batch]
            row_B = {name: row_N[low : low + self.batch] for name, row_N in rows.items()}
            if TOWER in parameters:
                row_B[TOWER] = np.zeros(1, dtype=np.int64)
            moving = {
                name: parameters[name][torch.from_numpy(rows)] for name, rows in row_B.items()
            }
            loss, slope = self.slope(moving, {}, label_B, len(label_B))
            total += loss * len(label_B)
            for name, gradient in slope.items():
                step_rows(parameters, name, row_B[name], gradient, step_rule)
        return total

    def slope(
        self, moving: Params, still: Params, label_B: np.ndarray, divisor: int
    ) -> tuple[float, dict[str, np.ndarray]]:
        """The loss of a batch and its gradient by what moves: a row for each sample."""
        moving = {name: value.detach().requires_grad_() for name, value in moving.items()}
        logit_B = self.logit(self._unpacked(still | moving))
        weight_B = torch.full_like(logit_B, 1.0 / divisor)
        label = torch.from_numpy(label_B).to(logit_B.dtype)
        loss = BinaryCrossEntropy().loss(logit_B, label, weight_B)
        gradients = torch.autograd.grad(loss, list(moving.values()))
        pairs = zip(moving, gradients, strict=True)
        return loss.item(), {name: gradient.contiguous().numpy() for name, gradient in pairs}

    def _unpacked(self, p: Params) -> Params:
        """With the tower's parameters by name instead of its one row."""
        if TOWER not in p:
            return p
        inits = self.tower()
        pieces = p[TOWER][0].split([init.count for init in inits.values()])
        named = zip(inits.items(), pieces, strict=True)
        return p | {name: piece.view(init.shape) for (name, init), piece in named}

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of known users."""
        rows = {name: parameters[name][torch.from_numpy(user_B)] for name in self.user_tables()}
        return self.score_rows(parameters, rows)

    def score_rows(self, parameters: Params, rows: Params) -> np.ndarray:
        """(B, I) logits of B users given by their rows."""
        around = self._unpacked(without_moments(parameters))
        around |= {name: parameters[name].unsqueeze(0) for name in self.item_tables()}
        n_users = len(next(iter(rows.values())))
        size = max(1, _PAIRS_AT_ONCE // self.n_items(parameters))
        blocks = []
        for low in range(0, n_users, size):
            some = {name: row_BD[low : low + size].unsqueeze(1) for name, row_BD in rows.items()}
            blocks.append(self.logit(around | some))
        return torch.cat(blocks).numpy()

    def n_items(self, parameters: Params) -> int:
        return len(parameters[next(iter(self.item_tables()))])

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new, whose own rows are fitted and nothing else."""
        rows = newcomer_rows(self, parameters, history, name=name, seed=seed, epochs=epochs)
        return self.score_rows(parameters, rows)[0]
