"""Networks that read a history from its earliest item to its latest and score what comes next.

Every epoch reads every history once, in windows of at most `length` places: at each place the
network has seen the items up to there, and the next one is what it should have said. Windows of an
epoch are shuffled and taken `batch` at a time. Histories of one item teach nothing.

A person is scored from the latest `length` items of a history, so nobody needs a row of their own:
who was there in training and who joins later with the same history get the same scores.

All that is drawn comes from `tacit.streams`: negatives and dropout from each user's own stream with
the epoch as the round, the order of windows from the epoch's. So a run that was stopped goes on to
the same numbers on the CPU. On a GPU the same is drawn, but sums of a table's gradient come in any
order there, and the last bits may differ.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus
from torch.utils.checkpoint import checkpoint

from tacit import streams
from tacit.central.samples import draw_unshuffled
from tacit.central.training import (
    DenseModel,
    Epoch,
    Slope,
    by_autograd,
    drawn,
    require_at_least_one,
)
from tacit.compiled import compiled
from tacit.core.optim import Adam, Sgd, without_optimizer_state
from tacit.core.types import Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import Histories, History, TrainView
from tacit.errors import TacitError, nearest

# Windows: which places of the packed histories stand in one row of a batch.


@dataclass(frozen=True, eq=False)
class Windows:
    """W stretches of packed histories: window w reads `size_W[w]` items from `start_W[w]` on.

    The targets of a window stand one place later. `after_W` counts the items of the history that
    come after the last one that is read.

    >>> from tacit.data.views import Lists
    >>> histories = Histories(Lists(np.array([0, 4, 5]), np.array([7, 8, 9, 5, 6])), None)
    >>> whole = Windows.of(histories, length=2, whole=True)
    >>> whole.start_W.tolist(), whole.size_W.tolist(), whole.after_W.tolist()
    ([1, 0], [2, 1], [1, 3])
    >>> Windows.of(histories, length=2, whole=False).start_W.tolist()
    [1]
    """

    user_W: np.ndarray  # int64
    start_W: np.ndarray  # int64
    size_W: np.ndarray  # int64
    after_W: np.ndarray  # int64

    @classmethod
    def of(cls, histories: Histories, length: int, *, whole: bool) -> Windows:
        """The latest `length` places of each history that have a next item, and with `whole` the
        earlier ones too, in windows of their own; windows are counted from the end."""
        places_U = np.maximum(histories.items.size_U - 1, 0)
        count_U = -(-places_U // length) if whole else np.minimum(places_U, 1)
        user_W = np.repeat(np.arange(len(histories)), count_U)
        first_U = np.cumsum(count_U) - count_U
        number_W = np.arange(len(user_W)) - first_U[user_W]  # 0 is the latest of its history
        end_W = places_U[user_W] - number_W * length
        begin_W = np.maximum(end_W - length, 0)
        start_W = histories.items.start_U1[user_W] + begin_W
        return cls(user_W, start_W, end_W - begin_W, 1 + number_W * length)

    def __len__(self) -> int:
        return len(self.user_W)

    @property
    def losses(self) -> int:
        """How many places there are."""
        return int(self.size_W.sum())

    def take(self, index_B: np.ndarray) -> Windows:
        """Some of the windows, in the order in which they are named."""
        columns = (self.user_W, self.start_W, self.size_W, self.after_W)
        return Windows(*(column[index_B] for column in columns))

    def laid_out(self, value_N: np.ndarray, later: int, device: torch.device) -> Tensor:
        """(B, L) the values at each place, or `later` places after it; padded behind, with
        anything."""
        place_BL = self.start_W[:, None] + np.arange(self.longest)[None, :] + later
        laid_BL: np.ndarray = value_N[np.minimum(place_BL, len(value_N) - 1)]
        return torch.from_numpy(laid_BL).to(device)

    @property
    def longest(self) -> int:
        return max(int(self.size_W.max(initial=0)), 1)

    def read(self, histories: Histories, device: torch.device) -> Read:
        item_BL = self.laid_out(histories.items.item_N, 0, device)
        size_B, after_B = (
            torch.from_numpy(column).to(device) for column in (self.size_W, self.after_W)
        )
        return Read(item_BL, size_B, after_B)


@dataclass(frozen=True, eq=False)
class Read:
    """What a network reads: B rows of items, padded behind."""

    item_BL: Tensor
    size_B: Tensor
    after_B: Tensor  # items of the history after the last one read

    @property
    def real_BL(self) -> Tensor:
        return (
            torch.arange(self.item_BL.shape[1], device=self.item_BL.device) < self.size_B[:, None]
        )

    @property
    def from_end_BL(self) -> Tensor:
        """How many items of the window come after each place; 0 on padding."""
        place_L = torch.arange(self.item_BL.shape[1], device=self.item_BL.device)
        return (self.size_B[:, None] - 1 - place_L).clamp(min=0)


# Dropout whose draws are the user's own.

_GOLDEN, _MIX_1, _MIX_2 = (
    number - (1 << 64) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)  # as in `tacit.streams`, in the signed numbers that torch has


def _shifted(z: Tensor, bits: int) -> Tensor:
    """z >> bits of numbers without a sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def draw_bits(key: Tensor, counter: Tensor) -> Tensor:
    """The upper 53 bits of number `counter` of each stream: what `streams.draw_unit` is made of.

    >>> key = streams.stream_key(0, streams.NETWORK_DROPOUT, np.uint64(1), np.uint64(7))
    >>> signed = torch.from_numpy(np.array([key], np.uint64).view(np.int64))
    >>> drawn = draw_bits(signed, torch.arange(2)).tolist()
    >>> drawn == [int(streams.draw_unit(np.uint64(key), c) * 2**53) for c in range(2)]
    True
    """
    z = key + _GOLDEN * (counter + 1)
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return _shifted(z ^ _shifted(z, 31), 11)


@compiled(error_model="numpy")
def _draw_kept(key_B, first_BL, border, kept_BLD):  # type: ignore[no-untyped-def]
    """The same draws on the CPU, one after another: whether those from a counter on reach a border.

    Keys and counters are signed, as torch has them, and are taken for what they were.
    """
    rows, places, width = kept_BLD.shape
    bits, border = np.uint64(11), np.uint64(border)
    for b in range(rows):
        for place in range(places):
            for d in range(width):
                number = streams.draw(key_B[b], first_BL[b, place] + d)
                kept_BLD[b, place, d] = (number >> bits) >= border


@dataclass(frozen=True, eq=False)
class Dropout:
    """Leaves entries out at a rate, and scales what stays so that its mean is kept.

    Which ones is drawn by the user, the place in the history counted from its end, and the layer,
    so that padding and company in a batch change nothing.
    """

    rate: float
    key_B: Tensor  # int64: a stream for each row
    place_BL: Tensor  # how many items of the whole history come after each place

    def __call__(self, value_BLD: Tensor, layer: int) -> Tensor:
        if self.rate == 0:
            return value_BLD
        kept_BLD = self.kept(value_BLD.shape[-1], layer).to(value_BLD.dtype)
        return value_BLD * kept_BLD / (1 - self.rate)

    def kept(self, width: int, layer: int) -> Tensor:
        """(B, L, D) true for the entries that stay."""
        first_BL, border = (layer << 40) + self.place_BL * width, int(self.rate * 2**53)
        if first_BL.device.type == "cpu":
            kept_BLD = torch.empty((*first_BL.shape, width), dtype=torch.bool)
            key_B, first = self.key_B.contiguous(), first_BL.contiguous()
            _draw_kept(key_B.numpy(), first.numpy(), border, kept_BLD.numpy())
            return kept_BLD
        entry_D = torch.arange(width, device=first_BL.device)
        return draw_bits(self.key_B[:, None, None], first_BL[:, :, None] + entry_D) >= border


def dropout_keys(train: TrainView, seed: int, number: int) -> np.ndarray:
    """(U,) the key of each user's dropout in an epoch, in signed numbers."""
    purpose, epoch = streams.NETWORK_DROPOUT, np.uint64(number)
    keys = [streams.stream_key(seed, purpose, epoch, name) for name in train.user_key_U]
    return np.array(keys, dtype=np.uint64).view(np.int64)


# Losses of all places of a batch. `state_BLD` is what the network made of the items up to a place.

Loss = Literal["bce", "softmax", "cross_entropy", "top1", "bpr_max"]
BPR_MAX_PENALTY = 1.0  # of the scores of negatives, against the rest of the loss
_LOGITS_AT_ONCE = (
    1 << 24
)  # of a softmax over the catalogue; more are computed again on the way back


@dataclass(frozen=True, eq=False)
class Outputs:
    """What scores are made with: a row for each item, and a bias where the model has one."""

    table_ID: Tensor
    bias_I: Tensor | None

    def of_items(self, state_PD: Tensor, item_P: Tensor) -> Tensor:
        """(P,) the score of one item for each state."""
        logit_P = (state_PD * self.table_ID[item_P]).sum(-1)
        return logit_P if self.bias_I is None else logit_P + self.bias_I[item_P]

    def of_all(self, state_PD: Tensor) -> Tensor:
        """(P, I) the scores of the catalogue."""
        logit_PI = state_PD @ self.table_ID.T
        return logit_PI if self.bias_I is None else logit_PI + self.bias_I

    def of_others(self, state_BLD: Tensor, target_BL: Tensor) -> Tensor:
        """(L, B, B) for each place, the scores that each row gives to the targets of all rows."""
        target_LB = target_BL.T
        logit_LBB = state_BLD.transpose(0, 1) @ self.table_ID[target_LB].transpose(1, 2)
        return logit_LBB if self.bias_I is None else logit_LBB + self.bias_I[target_LB][:, None, :]


def sampled_loss(
    outputs: Outputs, state_PD: Tensor, target_P: Tensor, negative_P: Tensor
) -> Tensor:
    """The sum of binary cross-entropies of a target and a negative at each place; a place whose
    negative is -1 has none."""
    positive_P = softplus(-outputs.of_items(state_PD, target_P), threshold=40.0)
    negative_loss_P = softplus(outputs.of_items(state_PD, negative_P.clamp(min=0)), threshold=40.0)
    return (positive_P + negative_loss_P * (negative_P >= 0)).sum()


def softmax_loss(outputs: Outputs, state_PD: Tensor, target_P: Tensor) -> Tensor:
    """The sum of cross-entropies over the whole catalogue."""

    def piece(state_PD: Tensor, target_P: Tensor) -> Tensor:
        return cross_entropy(outputs.of_all(state_PD), target_P, reduction="sum")

    size = max(1, _LOGITS_AT_ONCE // len(outputs.table_ID))
    if len(target_P) <= size:
        return piece(state_PD, target_P)
    pieces = zip(state_PD.split(size), target_P.split(size), strict=True)
    some = [checkpoint(piece, *one, use_reentrant=False) for one in pieces]
    return torch.stack(some).sum()


def in_batch_loss(
    kind: Loss, outputs: Outputs, state_BLD: Tensor, target_BL: Tensor, real_BL: Tensor
) -> Tensor:
    """The sum of a loss whose negatives are the targets of the other rows at the same place.

    A place at which no other row has another target teaches nothing.
    """
    logit_LBB = outputs.of_others(state_BLD, target_BL)
    target_LB, real_LB = target_BL.T, real_BL.T
    other_LBB = (target_LB[:, None, :] != target_LB[:, :, None]) & real_LB[:, None, :]
    positive_LB = logit_LBB.diagonal(dim1=1, dim2=2)
    count_LB = other_LBB.sum(2)
    taught_LB = real_LB & (count_LB > 0)
    if kind == "cross_entropy":
        others_LBB = logit_LBB.masked_fill(~other_LBB, -1e30)
        all_LB = torch.logaddexp(others_LBB.logsumexp(2), positive_LB)
        return (all_LB - positive_LB).where(taught_LB, 0.0).sum()
    gap_LBB = logit_LBB - positive_LB[:, :, None]
    if kind == "top1":
        each_LBB = torch.sigmoid(gap_LBB) + torch.sigmoid(logit_LBB.square())
        mean_LB = each_LBB.where(other_LBB, 0.0).sum(2) / count_LB.clamp(min=1)
        return mean_LB.where(taught_LB, 0.0).sum()
    weight_LBB = logit_LBB.masked_fill(~other_LBB, -1e30).softmax(2) * other_LBB
    better_LB = (weight_LBB * torch.sigmoid(-gap_LBB)).sum(2)
    penalty_LB = BPR_MAX_PENALTY * (weight_LBB * logit_LBB.square()).sum(2)
    return (penalty_LB - (better_LB + 1e-24).log()).where(taught_LB, 0.0).sum()


# What networks that read histories have in common.

ITEM_TABLE, ITEM_BIAS = "items", "bias"
_READ_AT_ONCE = 256  # histories that are scored together


class Laid(NamedTuple):
    """A batch as it is read: items, dropout, and what should come next at each place."""

    read: Read
    dropout: Dropout
    target_BL: Tensor
    negative_BL: Tensor
    places: int  # that are no padding


@dataclass(frozen=True)
class SequenceModel(DenseModel[Windows]):
    """A network over ordered histories; a subclass declares its parameters and its states.

    `loss` is `bce` (the next item against one that the user does not have, drawn anew in every
    epoch), `softmax` (against the whole catalogue), or one whose negatives are the next items of
    the other histories of a batch: `cross_entropy`, `top1` or `bpr_max`.
    """

    runs_on_gpu: ClassVar[bool] = True
    whole: ClassVar[bool] = True  # whether windows cover a history, or its latest places only

    dim: int = 50
    length: int = 50
    batch: int = 128
    dropout: float = 0.5
    loss: Loss = "bce"
    optimiser: Adam | Sgd = Adam(lifetime="persistent")

    def __post_init__(self) -> None:
        require_at_least_one(self, "dim", "length", "batch")
        if not 0 <= self.dropout < 1:
            raise TacitError(f"dropout is {self.dropout}; it must be at least 0 and below 1.")
        if self.loss not in get_args(Loss):
            raise TacitError(f"Unknown loss {self.loss!r}: {nearest(self.loss, get_args(Loss))}")

    @abstractmethod
    def parameters(self, n_items: int) -> dict[str, Initializer]:
        """How all parameters begin; `items` is the table of items."""

    @abstractmethod
    def states(self, p: Params, read: Read, dropout: Dropout | None) -> Tensor:
        """(B, L, D) what stands for a history up to each place; later items must not matter."""

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def sampling(self) -> Sampling | None:
        """What `draw_negatives` draws; the other losses draw nothing."""
        return Sampling(negatives=1) if self.loss == "bce" else None

    def first_values(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        return drawn(self.parameters(train.n_items), seed, dtype)

    def draw(self, train: TrainView, seed: int, number: int) -> Windows:
        windows = Windows.of(train.histories, self.length, whole=self.whole)
        generator = streams.numpy_generator(seed, streams.SHUFFLE, number)
        return windows.take(generator.permutation(len(windows)))

    def slopes(self, parameters: Params, samples: Windows, epoch: Epoch) -> Iterator[Slope]:
        train, seed, number = epoch.train, epoch.seed, epoch.number
        histories, device = train.histories, parameters[ITEM_TABLE].device
        key_U = dropout_keys(train, seed, number) if self.dropout else np.zeros(train.n_users, int)
        negative_N = draw_negatives(train, self.sampling, seed=seed, number=number)
        for low in range(0, len(samples), self.batch):
            some = samples.take(np.arange(low, min(low + self.batch, len(samples))))
            read = some.read(histories, device)
            key_B = torch.from_numpy(key_U[some.user_W]).to(device)
            dropout = Dropout(self.dropout, key_B, read.from_end_BL + read.after_B[:, None])
            target_BL = some.laid_out(histories.items.item_N, 1, device)
            negative_BL = some.laid_out(negative_N, 1, device)
            laid = Laid(read, dropout, target_BL, negative_BL, some.losses)
            yield partial(self._slope_of, laid)

    def _slope_of(self, laid: Laid, p: Params) -> tuple[Tensor, Params]:
        def loss(p: Params) -> Tensor:
            state_BLD = self.states(p, laid.read, laid.dropout)
            real_BL = laid.read.real_BL
            return self.batch_loss(p, state_BLD, laid.target_BL, laid.negative_BL, real_BL)

        return by_autograd(p, loss, divisor=laid.places)

    def batch_loss(
        self, p: Params, state_BLD: Tensor, target_BL: Tensor, negative_BL: Tensor, real_BL: Tensor
    ) -> Tensor:
        """The sum of the losses of all places that are no padding."""
        outputs = Outputs(p[ITEM_TABLE], p.get(ITEM_BIAS))
        if self.loss == "bce":
            places = (state_BLD[real_BL], target_BL[real_BL], negative_BL[real_BL])
            return sampled_loss(outputs, *places)
        if self.loss == "softmax":
            return softmax_loss(outputs, state_BLD[real_BL], target_BL[real_BL])
        return in_batch_loss(self.loss, outputs, state_BLD, target_BL, real_BL)

    @torch.no_grad()
    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of histories, whoever has them; an empty history scores all items alike, or
        by their biases."""
        p = without_optimizer_state(parameters)
        outputs = Outputs(p[ITEM_TABLE], p.get(ITEM_BIAS))
        blocks = []
        for low in range(0, len(histories), _READ_AT_ONCE):
            read = latest(histories[low : low + _READ_AT_ONCE], self.length, p[ITEM_TABLE].device)
            state_BLD = self.states(p, read, None)
            last_B = (read.size_B - 1).clamp(min=0)
            state_BD = state_BLD[torch.arange(len(last_B), device=last_B.device), last_B]
            state_BD = torch.where(read.size_B[:, None] > 0, state_BD, torch.zeros_like(state_BD))
            blocks.append(outputs.of_all(state_BD).cpu())
        return torch.cat(blocks).numpy()

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new, from the history alone: nothing is fitted."""
        return self.score(parameters, [history], np.zeros(1, np.int64))[0]


def latest(histories: Sequence[History], length: int, device: torch.device) -> Read:
    """The latest items of histories, laid out to be read."""
    rows = [history.item_H[-length:] for history in histories]
    size_B = np.array([len(row) for row in rows])
    item_BL = np.zeros((len(rows), max(int(size_B.max(initial=0)), 1)), np.int64)
    for b, row in enumerate(rows):
        item_BL[b, : len(row)] = row
    size = torch.from_numpy(size_B).to(device)
    return Read(torch.from_numpy(item_BL).to(device), size, torch.zeros_like(size))


def draw_negatives(
    train: TrainView, sampling: Sampling | None, *, seed: int, number: int
) -> np.ndarray:
    """(N,) for each entry of the packed histories an item that its user does not have; -1 where
    none is drawn. It is the one that a federated client with this seed draws for that item.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> draw_negatives(train, Sampling(negatives=1), seed=0, number=1).tolist()
    [1, -1, -1]
    """
    negative_N = np.full(len(train.positives.item_N), -1, np.int64)
    if sampling is not None:
        drawn = draw_unshuffled(train, sampling, seed=seed, number=number)
        negative = drawn.label_N == 0
        some_U = np.zeros(train.n_users, bool)
        some_U[drawn.user_N[negative]] = True
        negative_N[some_U[train.positives.list_N]] = drawn.item_N[negative]
    return negative_N[train.rows_in_time(np.arange(train.n_users))]
