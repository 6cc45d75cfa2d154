"""Central baselines that learn to rank pairs of items: BPR-MF and LightGCN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tacit.central.pairs import first_table_rows
from tacit.central.rows import StepRule, arrays_of, is_written_down, step_rows, with_row_moments
from tacit.central.triples import BIAS, USER, TripleModel, Triples, bpr_epoch, draw_triples
from tacit.core.capabilities import defines
from tacit.core.optim import Sgd
from tacit.core.registry import register
from tacit.core.types import ITEMS, Initializer, Params
from tacit.data.views import History, Lists, TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry
from tacit.methods.ials import once
from tacit.methods.item_to_item import train_matrix

# BPR-MF (Rendle, Freudenthaler, Gantner and Schmidt-Thieme, "BPR: Bayesian Personalized Ranking
# from Implicit Feedback", UAI 2009).
#
# score = p_u . q_i + b_i; the loss and what is drawn stand in `central/triples.py`. The paper
# descends triple by triple, at one rate, with a penalty on what a triple reads: that is the preset
# "paper" (`batch` 1, weight decay). Mini-batches with Adam are ours, and are the default, because
# they need no search for a rate. The paper draws triples with replacement; here an epoch meets
# every interaction once.


@register("bprmf")
@dataclass(frozen=True)
class BprMf(TripleModel):
    """Matrix factorisation under the pairwise loss; with `bias` items have one.

    >>> BprMf(dim=4).n_parameters(n_users=10, n_items=20)
    140
    """

    bias: bool = True

    def tables(self, n_users: int, n_items: int) -> dict[str, Initializer]:
        row = Initializer((self.dim,), "normal", 0.01)
        own = {BIAS: Initializer((1,))} if self.bias else {}
        return {USER: row, ITEMS: row, **own}

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """How many numbers are learnt."""
        return self.dim * (n_users + n_items) + (n_items if self.bias else 0)

    @property
    def kernel(self) -> str | None:
        wrote = defines(self, "descend", "slope", "score")
        return "bpr" if wrote and is_written_down(self.optimiser) else None

    def descend(
        self, parameters: Params, triples: Triples, train: TrainView, step_rule: StepRule
    ) -> float:
        if self.kernel is None:
            return self._descend_by_batches(parameters, triples, step_rule)
        nothing = parameters[ITEMS].numpy()[:0]
        biases = arrays_of(parameters, BIAS) if self.bias else (nothing,) * 3 + (nothing[:, 0],)
        tables = (arrays_of(parameters, USER), arrays_of(parameters, ITEMS), biases)
        step = (step_rule.adam, step_rule.beta1, step_rule.beta2, step_rule.constants)
        drawn = (triples.user_N, triples.item_N, triples.other_N)
        plain = self.batch == 1 and not step_rule.adam
        return float(bpr_epoch(tables, drawn, self.batch, step, plain))

    def _descend_by_batches(
        self, parameters: Params, triples: Triples, step_rule: StepRule
    ) -> float:
        """The same, batch after batch, with gradients from `slope`."""
        total = 0.0
        for low in range(0, len(triples), self.batch):
            some = triples.part(low, self.batch)
            both_M = np.stack([some.item_N, some.other_N], 1).ravel()
            rows = {USER: some.user_N, ITEMS: both_M, BIAS: both_M}
            moving = {
                name: parameters[name][torch.from_numpy(rows[name])] for name in self.tables(0, 0)
            }
            loss, slopes = self.slope(moving, len(some))
            total += loss * len(some)
            for name, slope in slopes.items():
                step_rows(parameters, name, rows[name], slope, step_rule)
        return total

    def slope(self, moving: Params, size: int) -> tuple[float, dict[str, np.ndarray]]:
        """The mean loss of a batch and its gradient: rows of users, and of items in pairs, each
        positive before its negative."""
        moving = {name: value.detach().requires_grad_() for name, value in moving.items()}
        pair = moving[ITEMS].view(size, 2, -1)
        x_B = (moving[USER] * (pair[:, 0] - pair[:, 1])).sum(1)
        if self.bias:
            bias = moving[BIAS].view(size, 2)
            x_B = x_B + bias[:, 0] - bias[:, 1]
        loss = torch.nn.functional.softplus(-x_B).mean()
        slopes = torch.autograd.grad(loss, list(moving.values()))
        named = zip(moving, slopes, strict=True)
        return loss.item(), {name: slope.contiguous().numpy() for name, slope in named}

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        return self._scores(parameters, parameters[USER][torch.from_numpy(user_B)])

    def _scores(self, parameters: Params, user_BD: Tensor) -> np.ndarray:
        score_BI = user_BD @ parameters[ITEMS].T
        return (score_BI + parameters[BIAS][:, 0] if self.bias else score_BI).numpy()

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """Only the newcomer's row is fitted, triple by triple; items stay as they are."""
        train = TrainView.of_one(history, len(parameters[ITEMS]), name)
        dtype, init = parameters[ITEMS].dtype, self.tables(1, train.n_items)[USER]
        own = {USER: first_table_rows(init, USER, seed, train.user_key_U, dtype)}
        own, only = with_row_moments(own, self.optimiser), np.zeros(1, np.int64)
        for number in range(1, epochs + 1):
            rule = self.step_rule(parameters, number, train.n_items)
            triples = draw_triples(train, seed=seed, number=number)
            for t in range(len(triples)):
                both = torch.from_numpy(np.array([triples.item_N[t], triples.other_N[t]]))
                still = {key: parameters[key][both] for key in self.tables(1, 1) if key != USER}
                _, slopes = self.slope({USER: own[USER], **still}, 1)
                step_rows(own, USER, only, slopes[USER] / self.batch, rule)
        return np.asarray(self._scores(parameters, own[USER])[0])


METHODS["bprmf"] = Entry(
    build=BprMf,
    summary="central baseline: matrix factorisation under the pairwise loss of BPR",
    rounds=100,
    presets={
        "paper": {"batch": 1, "optimiser": Sgd(rate=0.05, weight_decay=0.01)},
        "adam": {"batch": 256},
    },
)


# LightGCN (He, Deng, Wang, Li, Zhang and Wang, "LightGCN: Simplifying and Powering Graph
# Convolution Network for Recommendation", SIGIR 2020).
#
# The graph has an edge for each train interaction, once, of weight 1 / sqrt(d_u d_i); no loops.
# Rows E0 of all users and items are sent along it `layers` times, and what is scored with is the
# mean over E0 and all layers: Z = P E0, P = (1 + A + .. + A^layers) / (layers + 1). Loss: BPR over
# a batch, and penalty/2 times the squared norms of the E0 rows that the batch names, over its size.
# P is symmetric, so the gradient by E0 is P times that by Z: no graph of operations is kept.
#
# From the paper: width 64, Xavier's first values, Adam at 0.001 (every row moves at every step),
# batches of 2048 (the released code), penalty 1e-4, 3 layers. Products are scipy's, which are about
# as fast as torch's sparse ones (docs/results/independent.md).
#
# Ours: a newcomer has no row of its own: its E0 is zero, and items are as they were without it.

_GRAPHS: WeakKeyDictionary[TrainView, dict[np.dtype, Graph]] = WeakKeyDictionary()


class Graph(NamedTuple):
    """The train interactions as weights between users and items, in both directions."""

    to_user: scipy.sparse.csr_array  # (U, I)
    to_item: scipy.sparse.csr_array

    @classmethod
    def of(cls, train: TrainView, dtype: np.dtype) -> Graph:
        """Made once for each view and kind of numbers.

        >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 1]), n_lists=2)
        >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
        >>> (Graph.of(train, np.dtype(float)).to_user.toarray() ** 2).round(3).tolist()
        [[0.5, 0.25], [0.0, 0.5]]
        """
        kept = _GRAPHS.setdefault(train, {})
        if dtype not in kept:
            matrix = train_matrix(train)
            user_U, item_I = (np.maximum(matrix.sum(axis=axis), 1.0) for axis in (1, 0))
            scaled = scipy.sparse.diags_array(user_U**-0.5) @ matrix
            scaled = scaled @ scipy.sparse.diags_array(item_I**-0.5)
            to_user = scipy.sparse.csr_array(scaled.astype(dtype))
            kept[dtype] = cls(to_user, scipy.sparse.csr_array(to_user.T))
        return kept[dtype]

    def layers(
        self, user_UD: np.ndarray, item_ID: np.ndarray, count: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows before and after each of `count` layers."""
        found = [(user_UD, item_ID)]
        for _ in range(count):
            users, items = found[-1]
            found.append((self.to_user @ items, self.to_item @ users))
        return found

    def mean(
        self, user_UD: np.ndarray, item_ID: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """P times the rows."""
        layers = self.layers(user_UD, item_ID, count)
        mean_UD, mean_ID = user_UD / len(layers), item_ID / len(layers)
        for users, items in layers[1:]:
            mean_UD, mean_ID = mean_UD + users / len(layers), mean_ID + items / len(layers)
        return mean_UD, mean_ID


@register("lightgcn")
@dataclass(frozen=True)
class LightGcn(TripleModel):
    """LightGCN; an epoch plays batch after batch, with two products over the graph each.

    >>> LightGcn().n_parameters(n_users=10, n_items=20)
    1920
    """

    EPOCH_OF: ClassVar[str] = "mini-batches over the whole graph"
    SCORED: ClassVar[tuple[str, str, str]] = ("scored.user", "scored.items", "scored.layers")

    layers: int = 3
    penalty: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 0 or self.penalty < 0:
            raise TacitError(
                f"layers is {self.layers} and penalty {self.penalty}; neither may be negative."
            )

    def tables(self, n_users: int, n_items: int) -> dict[str, Initializer]:
        return {
            USER: Initializer((self.dim,), "uniform", (6 / (n_users + self.dim)) ** 0.5),
            ITEMS: Initializer((self.dim,), "uniform", (6 / (n_items + self.dim)) ** 0.5),
        }

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """How many numbers are learnt: layers have none of their own."""
        return self.dim * (n_users + n_items)

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        return self._with_scored(super().start(train, seed, dtype), train)

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        learnt = {name: parameters[name] for name in parameters if name not in self.SCORED}
        learnt, loss = super().epoch(learnt, train, seed, number)
        return self._with_scored(learnt, train), loss

    def _with_scored(self, parameters: Params, train: TrainView) -> Params:
        """With what is scored with: the rows after the layers, and item rows of each layer over the
        roots of their degrees, for newcomers."""
        user_UD, item_ID = parameters[USER].numpy(), parameters[ITEMS].numpy()
        graph = Graph.of(train, item_ID.dtype)
        steps = graph.layers(user_UD, item_ID, self.layers)
        mean_UD, mean_ID = graph.mean(user_UD, item_ID, self.layers)
        count_I = np.maximum(train_matrix(train).sum(axis=0), 1.0)
        shared_ID = sum((items for _, items in steps[:-1]), np.zeros_like(item_ID))
        shared_ID = shared_ID / (self.layers + 1) / np.sqrt(count_I)[:, None].astype(item_ID.dtype)
        made = (mean_UD, mean_ID, shared_ID)
        named = zip(self.SCORED, made, strict=True)
        return parameters | {name: torch.from_numpy(value) for name, value in named}

    def descend(
        self, parameters: Params, triples: Triples, train: TrainView, step_rule: StepRule
    ) -> float:
        graph, total = Graph.of(train, parameters[ITEMS].numpy().dtype), 0.0
        rate = float(step_rule.constants[0])
        for low in range(0, len(triples), self.batch):
            some = triples.part(low, self.batch)
            loss, slopes = self.slope(graph, parameters, some)
            total += loss * len(some)
            for name, slope in slopes.items():
                state = {
                    full.removeprefix(f"{name}/"): value
                    for full, value in parameters.items()
                    if full.startswith(f"{name}/")
                }
                value, state = self.optimiser.update(parameters[name], slope, state, rate)
                parameters[name] = value
                for key, new in state.items():
                    parameters[f"{name}/{key}"] = new
        return total

    def slope(
        self, graph: Graph, parameters: Params, some: Triples
    ) -> tuple[float, dict[str, Tensor]]:
        """The mean loss of a batch without its penalty, and the gradient of both by all rows."""
        user_UD, item_ID = parameters[USER].numpy(), parameters[ITEMS].numpy()
        mean_UD, mean_ID = graph.mean(user_UD, item_ID, self.layers)
        p, q_i, q_j = mean_UD[some.user_N], mean_ID[some.item_N], mean_ID[some.other_N]
        x_B = (p * (q_i - q_j)).sum(1)
        weight_B1 = (-1.0 / (1.0 + np.exp(x_B)) / len(some))[:, None].astype(p.dtype)
        by_user_UD, by_item_ID = np.zeros_like(user_UD), np.zeros_like(item_ID)
        np.add.at(by_user_UD, some.user_N, weight_B1 * (q_i - q_j))
        np.add.at(by_item_ID, some.item_N, weight_B1 * p)
        np.add.at(by_item_ID, some.other_N, -weight_B1 * p)
        slope_UD, slope_ID = graph.mean(by_user_UD, by_item_ID, self.layers)
        share = self.penalty / len(some)
        named_U = np.bincount(some.user_N, minlength=len(user_UD))
        named_I = np.bincount(np.concatenate([some.item_N, some.other_N]), minlength=len(item_ID))
        slope_UD = slope_UD + (share * named_U)[:, None].astype(p.dtype) * user_UD
        slope_ID = slope_ID + (share * named_I)[:, None].astype(p.dtype) * item_ID
        loss = float(np.logaddexp(0.0, -x_B.astype(np.float64)).mean())
        return loss, {USER: torch.from_numpy(slope_UD), ITEMS: torch.from_numpy(slope_ID)}

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        users, items, _ = (parameters[name] for name in self.SCORED)
        return np.asarray((users[torch.from_numpy(user_B)] @ items.T).numpy())

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        _, items, shared = (parameters[name] for name in self.SCORED)
        own = once(Lists(np.array([0, len(history)]), history.item_H), len(items)).item_N
        user_D = shared[torch.from_numpy(own)].sum(0) / max(len(own), 1) ** 0.5
        return np.asarray((items @ user_D).numpy())


METHODS["lightgcn"] = Entry(
    build=LightGcn,
    summary="central baseline: rows sent along the graph of interactions, pairwise loss",
    rounds=100,
    presets={"paper": {}, "two_layers": {"layers": 2}},
)
