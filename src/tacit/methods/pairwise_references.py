"""Central baselines that learn to rank pairs of items: BPR-MF and LightGCN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tacit.central.embeddings import EmbeddingModel, Embeddings
from tacit.central.factor_kernels import FactorTables, bpr_descent, bpr_epoch
from tacit.central.graph import BothWays, each_layer, incidence, propagate
from tacit.central.networks import glorot, row_of
from tacit.central.rows import StepRule, Table, is_written_down, table_of
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
# batches of 2048 (the released code), penalty 1e-4, 3 layers.
#
# Ours: a newcomer has no row of its own: its E0 is zero, and items are as they were without it.


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The graph, and the roots of how many users items have, or 1."""

    graph: BothWays
    root_I: Tensor


@register("lightgcn")
@dataclass(frozen=True)
class LightGcn(EmbeddingModel[Neighbours]):
    """LightGCN; an epoch plays batch after batch, with two products over the graph each.

    >>> LightGcn().n_parameters(n_users=10, n_items=20)
    1920
    """

    EPOCH_OF: ClassVar[str] = "mini-batches over the whole graph"
    SCORED: ClassVar[str] = "scored."

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

    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Neighbours:
        links_UI = incidence(train.positives, train.n_items)
        root_I = np.sqrt(np.maximum(links_UI.sum(axis=0), 1.0))
        graph = BothWays.of(links_UI, dtype, device)
        return Neighbours(graph, torch.from_numpy(root_I).to(device, dtype))

    def embeddings(self, p: Params, known: Neighbours) -> Embeddings:
        return Embeddings(*propagate(known.graph, p[USER], p[ITEMS], self.layers))

    @torch.no_grad()
    def finished(self, parameters: Params, train: TrainView) -> Params:
        """Beside the vectors: the sum of item rows of all layers but the last, over the roots of
        their degrees, for newcomers."""
        known, users = self.known_of(parameters, train), len(parameters[USER])
        first_ND = torch.cat([parameters[USER], parameters[ITEMS]])
        steps = each_layer(known.graph, first_ND, self.layers)
        shared_ID = sum(
            (row_ND[users:] for row_ND in steps[:-1]), torch.zeros_like(parameters[ITEMS])
        )
        shared_ID = shared_ID / (self.layers + 1) / known.root_I[:, None]
        return super().finished(parameters, train) | {f"{self.SCORED}layers": shared_ID}

    @torch.no_grad()
    def slope(
        self, p: Params, known: Neighbours, batch: Batch, generator: np.random.Generator
    ) -> tuple[Tensor, Params]:
        """The loss without its penalty, and the gradient of both by all rows."""
        user_B, item_2B = batch.user_B, torch.cat([batch.positive_B, batch.negative_B])
        mean_UD, mean_ID = propagate(known.graph, p[USER], p[ITEMS], self.layers)
        p_BD = mean_UD.index_select(0, user_B)
        q_i, q_j = mean_ID.index_select(0, item_2B).chunk(2)
        x_B = (p_BD * (q_i - q_j)).sum(1)
        weight_B1 = -torch.sigmoid(-x_B)[:, None] / len(batch)
        by_i = weight_B1 * p_BD
        by_user_UD = torch.zeros_like(mean_UD).index_add_(0, user_B, weight_B1 * (q_i - q_j))
        by_item_ID = torch.zeros_like(mean_ID).index_add_(0, item_2B, torch.cat([by_i, -by_i]))
        slopes = propagate(known.graph, by_user_UD, by_item_ID, self.layers)
        gradient = dict(zip((USER, ITEMS), slopes, strict=True))
        for name, row_B in ((USER, user_B), (ITEMS, item_2B)):
            named_BD = p[name].index_select(0, row_B)
            gradient[name].index_add_(0, row_B, named_BD, alpha=self.penalty / len(batch))
        return softplus(-x_B.double(), threshold=40.0).sum(), gradient

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        items, shared = (parameters[f"{self.SCORED}{name}"] for name in ("items", "layers"))
        own = once(Lists(np.array([0, len(history)]), history.item_H), len(items)).item_N
        user_D = shared[torch.from_numpy(own)].sum(0) / max(len(own), 1) ** 0.5
        return np.asarray((items @ user_D).cpu().numpy())


METHODS["lightgcn"] = Entry(
    build=LightGcn,
    summary="central baseline: rows sent along the graph of interactions, pairwise loss",
    rounds=100,
    presets={"paper": {}, "two_layers": {"layers": 2}},
)
