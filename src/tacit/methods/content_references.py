"""What central references for cold items have in common: factors of warm items come first, and then
something learns how they follow from content.

The first `factor_epochs` rounds of a run are epochs of a matrix factorisation (`mf`) on the items
that exist in training; until they are over every score is zero. All later rounds are epochs of the
method itself, which reads the factors as they stand and moves none of them. So a round is one pass
over the interactions from the first to the last, and a search budget counts both stages.

Who is ranked how is two tables of vectors, made anew after every epoch: the score of an item is the
product of the two. An item that nobody has touched has a vector that is made of its content alone.

The papers have a factorisation with a pairwise loss, and stop it on warm interactions that they
hold out; here no warm interaction is held out, so the number of epochs is a setting. That, and the
loss of `mf` (binary cross-entropy), is ours. Content is what MDiffFR reads: principal components,
as many as factors are wide, fitted on items that somebody has touched. Samples are the house's:
every interaction once an epoch, with negatives among the items that exist which the user does not
have. Released code draws negatives that may be positives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.central.networks import Losses, Perceptron, apart
from tacit.central.samples import PairSamples, draw_unshuffled
from tacit.central.training import drawn, require_at_least_one
from tacit.core.central import TrainedCentralMethod
from tacit.core.optim import Adam, Optimiser
from tacit.core.types import Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import History, TrainView
from tacit.methods.central_trained import Mf
from tacit.parts.cold.features import Features
from tacit.parts.diffusion.denoiser import Descent, with_memory

USER, ITEMS = "user", "items"  # the tables of the factorisation
WARM = "warm"  # codes of the items that exist in training
RANKED_USER, RANKED_ITEMS = "ranked.user", "ranked.items"
NETWORK = "network."

# The last feature rows of a view: every epoch reads the same, and to turn them takes its time.
_ROWS: WeakKeyDictionary[TrainView, tuple[object, np.ndarray]] = WeakKeyDictionary()

# The widths of the references' own papers, and that of MDiffFR, who compares with them.
FACTORS = Mf(200, 256, Sampling(negatives=5), Adam(lifetime="persistent"))
NARROW = replace(FACTORS, dim=64)


@dataclass(frozen=True, eq=False)
class Known:
    """What a reference learns from: histories over the W items that exist, factors of users and of
    those items, and features of all I items of the catalogue.

    `touched_I` is true for items that somebody has in train: all others are ranked by content.
    """

    train: TrainView  # of what exists
    user_UD: Tensor
    item_WD: Tensor
    warm_W: Tensor
    feature_IF: Tensor
    touched_I: Tensor

    @property
    def feature_WF(self) -> Tensor:
        return self.feature_IF[self.warm_W]

    def ranked(self, warm_WK: Tensor, content_IK: Tensor) -> Tensor:
        """(I, K) the vectors of touched items where they have one, and those of content elsewhere.

        >>> none = torch.zeros(0)
        >>> known = Known(None, none, none, torch.tensor([0, 2]), none, torch.tensor([True] * 3))
        >>> known.ranked(torch.tensor([[5.0], [7.0]]), torch.zeros(3, 1))[:, 0].tolist()
        [5.0, 0.0, 7.0]
        """
        all_IK = content_IK.clone()
        all_IK[self.warm_W] = warm_WK
        return torch.where(self.touched_I[:, None], all_IK, content_IK)


class RanksByVectors(TrainedCentralMethod, ABC):
    """Scores are products of two tables of vectors, which every epoch makes anew."""

    ranks_unseen: ClassVar[bool] = True
    runs_on_gpu: ClassVar[bool] = True
    features: Features
    optimiser: Optimiser

    @property
    @abstractmethod
    def feature_width(self) -> int:
        """How wide content is, where it is reduced to principal components."""

    def feature_rows(self, train: TrainView) -> np.ndarray:
        """(I, F) of the whole catalogue; what they are scaled and turned by is of touched items."""
        asked = (self.features, self.feature_width)
        answered, row_IF = _ROWS.get(train, (None, np.zeros(0)))
        if answered != asked:
            row_IF = self.features.rows(train.content, train.popularity_I() > 0, asked[1])
            _ROWS[train] = asked, row_IF
        return row_IF

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of known users."""
        user_BK = parameters[RANKED_USER][torch.from_numpy(user_B)]
        return np.asarray((user_BK @ parameters[RANKED_ITEMS].T).cpu().numpy())


@dataclass(frozen=True, eq=False)
class FactorBatch:
    """N samples: the factors of users and of items; a reference adds what else it reads."""

    user_ND: Tensor
    item_ND: Tensor

    def __len__(self) -> int:
        return len(self.user_ND)


AnyBatch = TypeVar("AnyBatch", bound=FactorBatch)
States = dict[str, tuple[Params, Params]]  # of each network: what descends, running statistics


@dataclass(frozen=True)
class ContentReference(RanksByVectors, Generic[AnyBatch]):
    """A reference for cold items over the factors of warm ones; a subclass declares networks, the
    batches that they read and their losses."""

    factors: Mf = FACTORS
    factor_epochs: int = 20
    features: Features = Features()
    batch: int = 1024

    def __post_init__(self) -> None:
        require_at_least_one(self, "factor_epochs", "batch")

    @property
    def sampling(self) -> Sampling:
        """What both stages draw; a pairwise loss looks at the first negative of a positive."""
        return self.factors.sampling

    @property
    def width(self) -> int:
        return self.factors.dim

    @property
    def feature_width(self) -> int:
        return self.width

    @property
    def ranked_width(self) -> int:
        """How wide the vectors are whose product is a score."""
        return self.width

    @abstractmethod
    def networks(self, feature_width: int) -> dict[str, tuple[Perceptron, ...]]:
        """The towers of each network that descends by itself, in the order in which they do. A name
        is what those of the network's parameters begin with; a single network may be called ""."""

    def layers(self, feature_width: int) -> dict[str, Initializer]:
        """Layers that a single network has beside its towers."""
        return {}

    @abstractmethod
    def batches(
        self, known: Known, samples: PairSamples, generator: np.random.Generator
    ) -> Iterator[AnyBatch]:
        """The batches of an epoch, by `pieces`; `samples` stand user after user."""

    def loss(
        self,
        p: Params,
        statistics: Params,
        batch: AnyBatch,
        training: np.random.Generator | None,
    ) -> Tensor:
        """The loss of a batch, of a single network; running statistics are moved in place."""
        raise NotImplementedError

    def loss_of(
        self, network: str, batch: AnyBatch, states: States, training: np.random.Generator
    ) -> Callable[[Params], Tensor]:
        """The loss of a batch as a function of what descends of a network."""
        _, statistics = states[network]
        return partial(self.loss, statistics=statistics, batch=batch, training=training)

    @abstractmethod
    def user_vectors(self, p: Params, factors: Params, user_ND: Tensor) -> Tensor:
        """(N, K) what ranks for people with these factors, among all factors."""

    @abstractmethod
    def item_vectors(self, p: Params, known: Known) -> Tensor:
        """(I, K) what is ranked."""

    def begin(self, feature_width: int, seed: int, dtype: torch.dtype) -> Params:
        """The parameters of the second stage, what optimisers remember included."""
        found: Params = {}
        for network, towers in self.networks(feature_width).items():
            moving, statistics = drawn(self.layers(feature_width), seed, dtype), Params()
            for tower in towers:
                moving |= tower.parameters(seed, dtype)
                statistics |= tower.statistics(dtype)
            whole = with_memory(self.optimiser, moving) | statistics
            found |= {f"{network}{name}": value for name, value in whole.items()}
        return found

    def learnt(
        self,
        p: Params,
        known: Known,
        samples: PairSamples,
        number: int,
        generator: np.random.Generator,
    ) -> tuple[Params, float]:
        """The parameters after epoch `number` of the stage (from 1), and the mean loss of the last
        network. On every batch the networks descend one after the other."""
        networks = self.networks(known.feature_IF.shape[1])
        states, descents = {}, {}
        for name, towers in networks.items():
            moving, statistics = apart(beginning(p, name), towers)
            descents[name] = Descent(self.optimiser, moving)
            states[name] = descents[name].parameters, statistics
        rate, losses = self.optimiser.rate_at(number, len(known.item_WD)), Losses()
        *_, last = networks
        for batch in self.batches(known, samples, generator):
            for name, descent in descents.items():
                loss = self.loss_of(name, batch, states, generator)
                loss = losses.told(loss, len(batch)) if name == last else loss
                descent.step(loss, rate)
                states[name] = descent.parameters, states[name][1]
        after = {name: descent.whole | states[name][1] for name, descent in descents.items()}
        named = {f"{name}{key}": value for name, q in after.items() for key, value in q.items()}
        return named, losses.mean

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        existing = train.existing()
        network = self.begin(self.feature_rows(train).shape[1], seed, dtype)
        return (
            self.factors.start(existing, seed, dtype)
            | {WARM: torch.from_numpy(warm_codes(train))}
            | {f"{NETWORK}{name}": value for name, value in network.items()}
            | {
                RANKED_USER: torch.zeros(train.n_users, self.ranked_width, dtype=dtype),
                RANKED_ITEMS: torch.zeros(train.n_items, self.ranked_width, dtype=dtype),
            }
        )

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        existing, factors = train.existing(), _factors(parameters)
        if number <= self.factor_epochs:
            device = parameters[ITEMS].device  # kernels play on the CPU
            on_host = {name: value.cpu() for name, value in factors.items()}
            moved, loss = self.factors.epoch(on_host, existing, seed, number)
            return parameters | {name: value.to(device) for name, value in moved.items()}, loss
        known = self.known(parameters, train)
        samples = draw_unshuffled(existing, self.sampling, seed=seed, number=number)
        generator = streams.numpy_generator(seed, streams.NETWORK_DROPOUT, number)
        before = {name: value.clone() for name, value in network_of(parameters).items()}
        after, loss = self.learnt(before, known, samples, number - self.factor_epochs, generator)
        with torch.no_grad():
            ranked = {
                RANKED_USER: self.user_vectors(after, factors, known.user_UD),
                RANKED_ITEMS: self.item_vectors(after, known),
            }
        return (
            parameters | {f"{NETWORK}{name}": value for name, value in after.items()} | ranked,
            loss,
        )

    def known(self, parameters: Params, train: TrainView) -> Known:
        """What stands in the parameters and in the view, side by side."""
        return Known(
            train.existing(),
            parameters[USER],
            parameters[ITEMS],
            parameters[WARM],
            torch.from_numpy(self.feature_rows(train)).to(parameters[ITEMS]),
            torch.from_numpy(train.popularity_I() > 0).to(parameters[ITEMS].device),
        )

    @torch.no_grad()
    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new, whose factors are fitted and nothing else."""
        parameters = {key: value.cpu() for key, value in parameters.items()}
        factors, warm_W = _factors(parameters), parameters[WARM].numpy()
        existed_H = np.isin(history.item_H, warm_W)
        own = replace(
            history,
            item_H=np.searchsorted(warm_W, history.item_H[existed_H]),
            time_H=None if history.time_H is None else history.time_H[existed_H],
        )
        with torch.enable_grad():
            rows = self.factors.newcomer_rows(factors, own, name=name, seed=seed, epochs=epochs)
        vector_1K = self.user_vectors(network_of(parameters), factors, rows[USER])
        return np.asarray((vector_1K @ parameters[RANKED_ITEMS].T)[0].numpy())

    def pieces(self, count: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
        """All numbers below `count`, shuffled, in pieces of nearly equal size, at most `batch`. A
        piece of one is left out: a batch norm has no statistics of it."""
        order_N = generator.permutation(count)
        for piece in np.array_split(order_N, max(1, -(-count // self.batch))):
            if len(piece) > 1:
                yield piece


def warm_codes(train: TrainView) -> np.ndarray:
    """(W,) the codes of the items that exist in training."""
    warm_W = np.arange(train.n_items) if train.warm_W is None else train.warm_W
    return np.asarray(warm_W, dtype=np.int64)


def first_pairs(samples: PairSamples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(user, positive, its first negative) for each positive that has one.

    >>> user, item, label = np.zeros(4, int), np.array([7, 1, 2, 8]), np.array([1, 0, 0, 1])
    >>> [column.tolist() for column in first_pairs(PairSamples(user, item, label))]
    [[0], [7], [1]]
    """
    label_N = samples.label_N
    pair_N = np.flatnonzero((label_N[:-1] == 1) & (label_N[1:] == 0))
    return samples.user_N[pair_N], samples.item_N[pair_N], samples.item_N[pair_N + 1]


def _factors(parameters: Params) -> Params:
    """The tables of the factorisation, with their optimizer state."""
    return {
        name: value for name, value in parameters.items() if name.split("/")[0] in (USER, ITEMS)
    }


def network_of(parameters: Params) -> Params:
    """The parameters of the network alone, by their own names."""
    return beginning(parameters, NETWORK)


def beginning(parameters: Params, prefix: str) -> Params:
    """Those whose names begin so, without it.

    >>> sorted(beginning({"a:w": torch.zeros(1), "b:w": torch.zeros(1)}, "a:"))
    ['w']
    """
    return {
        name.removeprefix(prefix): value
        for name, value in parameters.items()
        if name.startswith(prefix)
    }
