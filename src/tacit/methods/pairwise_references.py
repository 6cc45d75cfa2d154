"""Central baselines that learn to rank pairs of items: BPR-MF and LightGCN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tacit.central.embeddings import EmbeddingModel, Embeddings
from tacit.central.factor_kernels import FactorTables, bpr_descent, bpr_epoch
from tacit.central.networks import glorot, row_of
from tacit.central.rows import StepRule, Table, is_written_down, table_of, with_row_state
from tacit.central.samples import Batch, Triples, draw_triples
from tacit.central.training import RowModel, require_at_least_one
from tacit.core.capabilities import defines
from tacit.core.optim import Adam, Sgd
from tacit.core.registry import register
from tacit.core.types import ITEMS, Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import History, Lists, TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry
from tacit.methods.ials import once
from tacit.methods.item_to_item import train_matrix

USER, BIAS = "user", "bias"

# BPR-MF (Rendle, Freudenthaler, Gantner and Schmidt-Thieme, "BPR: Bayesian Personalized Ranking
# from Implicit Feedback", UAI 2009).
#
# score = p_u . q_i + b_i. Every train interaction is met once in an epoch, with one negative that
# is drawn anew; the loss is softplus of the difference between the negative's score and the
# positive's, a mean over a batch. Only rows that a batch reads move.
#
# The paper descends triple by triple, at one rate, with a penalty on what a triple reads: that is
# the preset "paper" (`batch` 1, weight decay). Mini-batches with Adam are ours, and are the
# default, because they need no search for a rate. The paper draws triples with replacement; here
# an epoch meets every interaction once.


@register("bprmf")
@dataclass(frozen=True)
class BprMf(RowModel[Triples]):
    """Matrix factorisation under the pairwise loss; with `bias` items have one.

    >>> BprMf(dim=4).n_parameters(n_users=10, n_items=20)
    140
    """

    dim: int = 64
    batch: int = 2048
    optimiser: Adam | Sgd = Adam(lifetime="persistent")
    bias: bool = True

    def __post_init__(self) -> None:
        require_at_least_one(self, "dim", "batch")

    @property
    def sampling(self) -> Sampling:
        return Sampling(negatives=1)

    def user_tables(self) -> dict[str, Initializer]:
        return {USER: Initializer((self.dim,), "normal", 0.01)}

    def item_tables(self) -> dict[str, Initializer]:
        row = Initializer((self.dim,), "normal", 0.01)
        return {ITEMS: row, BIAS: Initializer((1,))} if self.bias else {ITEMS: row}

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """How many numbers are learnt."""
        return self.dim * (n_users + n_items) + (n_items if self.bias else 0)

    def draw(self, train: TrainView, seed: int, number: int) -> Triples:
        return draw_triples(train, self.sampling, seed=seed, number=number)

    def batch_loss(self, p: Params, batch: Triples, divisor: int) -> Tensor:
        pair_B2D = p[ITEMS].view(len(batch), 2, -1)
        x_B = (p[USER] * (pair_B2D[:, 0] - pair_B2D[:, 1])).sum(1)
        if self.bias:
            bias_B2 = p[BIAS].view(len(batch), 2)
            x_B = x_B + bias_B2[:, 0] - bias_B2[:, 1]
        return softplus(-x_B, threshold=40.0).sum() / divisor

    @property
    def kernel(self) -> str | None:
        wrote = defines(self, "descend", "batch_loss", "score_rows")
        return "bpr" if wrote and is_written_down(self.optimiser) else None

    def descend(self, parameters: Params, samples: Triples, step_rule: StepRule) -> float:
        """What `RowModel.descend` does, with gradients by hand."""
        if self.kernel is None:
            return super().descend(parameters, samples, step_rule)
        users, items = table_of(parameters, USER), table_of(parameters, ITEMS)
        biases = table_of(parameters, BIAS) if self.bias else Table.empty(items.values.dtype)
        tables = FactorTables(users, items, biases)
        if self.batch == 1 and not step_rule.adam:
            return float(bpr_descent(tables, samples.arrays, step_rule.step))
        return float(bpr_epoch(tables, samples.arrays, self.batch, step_rule.step))

    def score_rows(self, parameters: Params, rows: Params) -> np.ndarray:
        score_BI = rows[USER] @ parameters[ITEMS].T
        return (score_BI + parameters[BIAS][:, 0] if self.bias else score_BI).numpy()

    def newcomer_batch(self, count: int) -> int:
        return 1  # triple by triple


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
# batches of 2048 (the released code), penalty 1e-4, 3 layers. Products are scipy's: in the
# measured run torch's took a fifth less time (docs/results/independent.md). These stay because the
# gradient is written by hand, without torch.
#
# Ours: a newcomer has no row of its own: its E0 is zero, and items are as they were without it.


class Graph(NamedTuple):
    """The train interactions as weights between users and items, in both directions."""

    to_user: scipy.sparse.csr_array  # (U, I)
    to_item: scipy.sparse.csr_array

    @classmethod
    def of(cls, train: TrainView, dtype: np.dtype) -> Graph:
        """
        >>> lists = Lists.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 1]), n_lists=2)
        >>> train = TrainView(2, lists, np.array([5, 6], np.uint64), Lists.empty(2))
        >>> (Graph.of(train, np.dtype(float)).to_user.toarray() ** 2).round(3).tolist()
        [[0.5, 0.25], [0.0, 0.5]]
        """
        matrix = train_matrix(train)
        user_U, item_I = (np.maximum(matrix.sum(axis=axis), 1.0) for axis in (1, 0))
        scaled = scipy.sparse.diags_array(user_U**-0.5) @ matrix
        scaled = scaled @ scipy.sparse.diags_array(item_I**-0.5)
        to_user = scipy.sparse.csr_array(scaled.astype(dtype))
        return cls(to_user, scipy.sparse.csr_array(to_user.T))

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
class LightGcn(EmbeddingModel[Graph]):
    """LightGCN; an epoch plays batch after batch, with two products over the graph each.

    >>> LightGcn().n_parameters(n_users=10, n_items=20)
    1920
    """

    EPOCH_OF: ClassVar[str] = "mini-batches over the whole graph"
    SCORED: ClassVar[str] = "scored."
    runs_on_gpu: ClassVar[bool] = False

    layers: int = 3
    penalty: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 0 or self.penalty < 0:
            raise TacitError(
                f"layers is {self.layers} and penalty {self.penalty}; neither may be negative."
            )

    @property
    def sampling(self) -> Sampling:
        return Sampling(negatives=1)

    def user_tables(self, train: TrainView) -> dict[str, Initializer]:
        return {USER: row_of(glorot(train.n_users, self.dim))}

    def parameters(self, train: TrainView) -> dict[str, Initializer]:
        return {ITEMS: glorot(train.n_items, self.dim)}

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """How many numbers are learnt: layers have none of their own."""
        return self.dim * (n_users + n_items)

    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Graph:
        return Graph.of(train, torch.zeros(0, dtype=dtype).numpy().dtype)

    def with_state(self, values: Params) -> Params:
        """Steps are counted by row: torch's powers of many counts round otherwise than of one, and
        numbers stay what they were."""
        return with_row_state(values, self.optimiser)

    def embeddings(self, p: Params, known: Graph) -> Embeddings:
        mean_UD, mean_ID = known.mean(p[USER].numpy(), p[ITEMS].numpy(), self.layers)
        return Embeddings(torch.from_numpy(mean_UD), torch.from_numpy(mean_ID))

    def finished(self, parameters: Params, train: TrainView) -> Params:
        """Beside the vectors: the sum of item rows of all layers but the last, over the roots of
        their degrees, for newcomers."""
        user_UD, item_ID = parameters[USER].numpy(), parameters[ITEMS].numpy()
        steps = self.known_of(parameters, train).layers(user_UD, item_ID, self.layers)
        count_I = np.maximum(train_matrix(train).sum(axis=0), 1.0)
        shared_ID = sum((items for _, items in steps[:-1]), np.zeros_like(item_ID))
        shared_ID = shared_ID / (self.layers + 1) / np.sqrt(count_I)[:, None].astype(item_ID.dtype)
        shared = {f"{self.SCORED}layers": torch.from_numpy(shared_ID)}
        return super().finished(parameters, train) | shared

    def slope(
        self, p: Params, known: Graph, batch: Batch, generator: np.random.Generator
    ) -> tuple[Tensor, Params]:
        """The loss without its penalty, and the gradient of both by all rows."""
        user_UD, item_ID = p[USER].numpy(), p[ITEMS].numpy()
        user_B, item_B, other_B = (
            rows.numpy() for rows in (batch.user_B, batch.positive_B, batch.negative_B)
        )
        mean_UD, mean_ID = known.mean(user_UD, item_ID, self.layers)
        p_BD, q_i, q_j = mean_UD[user_B], mean_ID[item_B], mean_ID[other_B]
        x_B = (p_BD * (q_i - q_j)).sum(1)
        weight_B1 = (-1.0 / (1.0 + np.exp(x_B)) / len(batch))[:, None].astype(p_BD.dtype)
        by_user_UD, by_item_ID = np.zeros_like(user_UD), np.zeros_like(item_ID)
        np.add.at(by_user_UD, user_B, weight_B1 * (q_i - q_j))
        np.add.at(by_item_ID, item_B, weight_B1 * p_BD)
        np.add.at(by_item_ID, other_B, -weight_B1 * p_BD)
        slope_UD, slope_ID = known.mean(by_user_UD, by_item_ID, self.layers)
        share = self.penalty / len(batch)
        named_U = np.bincount(user_B, minlength=len(user_UD))
        named_I = np.bincount(np.concatenate([item_B, other_B]), minlength=len(item_ID))
        slope_UD = slope_UD + (share * named_U)[:, None].astype(p_BD.dtype) * user_UD
        slope_ID = slope_ID + (share * named_I)[:, None].astype(p_BD.dtype) * item_ID
        mean = torch.tensor(np.logaddexp(0.0, -x_B.astype(np.float64)).mean())
        gradient = {USER: torch.from_numpy(slope_UD), ITEMS: torch.from_numpy(slope_ID)}
        return mean * len(batch), gradient

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        items, shared = (parameters[f"{self.SCORED}{name}"] for name in ("items", "layers"))
        own = once(Lists(np.array([0, len(history)]), history.item_H), len(items)).item_N
        user_D = shared[torch.from_numpy(own)].sum(0) / max(len(own), 1) ** 0.5
        return np.asarray((items @ user_D).numpy())


METHODS["lightgcn"] = Entry(
    build=LightGcn,
    summary="central baseline: rows sent along the graph of interactions, pairwise loss",
    rounds=100,
    presets={"paper": {}, "two_layers": {"layers": 2}},
)
