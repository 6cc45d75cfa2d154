"""PGL: Yu et al., "Mind Individual Information! Principal Graph Learning for Multimedia
Recommendation", AAAI 2025, central.

Items have no row of their own: an item is its projected text and image side by side, each of length
one, and a user has a row as wide. They go through the graph of users and items, and what stands for
an item is that plus the mean of its nearest items', weighted 0.9 by text and 0.1 by image.

In training the graph is a principal one, in ranking the whole; this difference is the method.

- `principal="local"`: in every epoch 30 % of all links, drawn without replacement, a link with
  weight 1 / sqrt(degree of user · degree of item); normalised by the degrees that are left.
- `principal="global"`: once, of the largest singular values of the whole graph, as many as the
  vectors are wide: the largest quarter, each times one of the smallest quarter, with the vectors of
  the largest; entries below 1e-3 are left out.

The loss is BPR, plus a contrast of two dropouts of the same users and of the same items.

Kept: all of that, width 64 for each half, two layers, 10 nearest items that weigh alike, no
penalty, Adam at 1e-3 times 0.96 every 50 epochs, batches of 2,048, trained tables of content of the
released code (`train_content`). Its file of settings has no contrast at all, its logs have weights
0.05 to 0.5 with dropout 0.05 to 0.2: preset `paper` is the file's, `contrast` is (0.2, 0.05).

Ours: modalities other than two share weights as `modality_weights` says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor
from torch.nn.functional import normalize

from tacit import streams
from tacit.central.embeddings import (
    USER_TABLE,
    Embeddings,
    contrast,
    ranking_loss,
    require_rate,
    require_weights,
)
from tacit.central.graph import (
    BothWays,
    SparseMatrix,
    both_ways,
    incidence,
    nearest_items,
    normalised,
    propagate,
)
from tacit.central.multimodal import GraphAndContent, GraphContentModel, require_layers
from tacit.central.networks import dropped, glorot, layer, row_of, through
from tacit.central.samples import Batch
from tacit.core.optim import Adam, Sgd
from tacit.core.registry import register
from tacit.core.types import CONTENT, Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry

TEMPERATURE = 0.2  # of the contrast
SMALLEST = 1e-3  # of the entries that the global graph keeps


def drawn_links(
    incidence_UI: scipy.sparse.csr_array, share: float, generator: np.random.Generator
) -> scipy.sparse.csr_array:
    """(U, I) a share of the links, without replacement; links between two that have few are the
    likelier ones.

    >>> links = scipy.sparse.csr_array(np.ones((2, 5)))
    >>> drawn_links(links, 0.3, np.random.default_rng(0)).nnz
    3
    """
    links = incidence_UI.tocoo()
    degree_U, degree_I = (np.asarray(incidence_UI.sum(axis=axis)).ravel() for axis in (1, 0))
    weight_N = (degree_U[links.row] * degree_I[links.col]) ** -0.5
    # the largest of log w + Gumbel noise are a draw by w without replacement
    noisy_N = np.log(weight_N) + generator.gumbel(size=links.nnz)
    kept_K = np.sort(np.argsort(-noisy_N, kind="stable")[: int(share * links.nnz)])
    pairs = (links.row[kept_K], links.col[kept_K])
    return scipy.sparse.csr_array((np.ones(len(kept_K)), pairs), shape=incidence_UI.shape)


def rebuilt(whole_NN: scipy.sparse.csr_array, rank: int) -> scipy.sparse.csr_array:
    """(N, N) the global principal graph: of the `rank` largest singular values the largest quarter,
    each times one of the smallest, with the vectors of the largest.

    >>> rebuilt(scipy.sparse.csr_array(np.diag([4.0, 3.0, 2.0, 1.0, 0.5])), 4).toarray().max()
    np.float64(4.0)
    """
    size = whole_NN.shape[0]
    rank = min(rank, size - 1)
    start_N = np.random.default_rng(0).normal(size=size)  # the same in every run
    left_NR, value_R, right_RN = scipy.sparse.linalg.svds(whole_NN, k=rank, v0=start_N)
    order_R = np.argsort(-value_R, kind="stable")
    quarter = max(1, rank // 4)
    top_Q = order_R[:quarter]
    value_Q = value_R[top_Q] * value_R[order_R[rank - quarter :]]
    blocks, block = [], max(1, (1 << 24) // size)
    for low in range(0, size, block):
        some_BN = (left_NR[low : low + block, top_Q] * value_Q) @ right_RN[top_Q]
        some_BN[np.abs(some_BN) < SMALLEST] = 0
        blocks.append(scipy.sparse.csr_array(some_BN))
    return scipy.sparse.csr_array(scipy.sparse.vstack(blocks))


@dataclass(frozen=True, eq=False)
class Principal(GraphAndContent):
    """Beside the whole graph: nearest items, the links, and the graph of all epochs, if it is one
    for all."""

    nearest: SparseMatrix
    links_UI: scipy.sparse.csr_array
    trained_on: SparseMatrix | None


@register("pgl")
@dataclass(frozen=True)
class Pgl(GraphContentModel[Principal]):
    """PGL; `dim` is the width of each modality's part of a vector.

    >>> Pgl().principal, Pgl().share
    ('local', 0.3)
    """

    optimiser: Adam | Sgd = Adam(lifetime="persistent", decay=0.96 ** (1 / 50))
    sampling: Sampling = Sampling(negatives=1)
    principal: Literal["local", "global"] = "local"
    share: float = 0.3
    layers: int = 2
    neighbours: int = 10
    modality_weights: tuple[float, ...] = (0.9, 0.1)
    dropout: float = 0.2
    contrast_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_layers(self.layers)
        require_rate("dropout", self.dropout)
        require_weights(contrast_weight=self.contrast_weight)
        if self.principal not in ("local", "global"):
            raise TacitError(f"principal is {self.principal!r}; use local or global.")
        if not 0 < self.share <= 1:
            raise TacitError(f"share is {self.share}; it must be above 0 and at most 1.")
        if self.neighbours < 1:
            raise TacitError(f"neighbours is {self.neighbours}; it must be at least 1.")
        if len(self.modality_weights) != len(self.modalities):
            raise TacitError(
                f"modality_weights are {list(self.modality_weights)}; give one for each of "
                f"{', '.join(self.modalities)}."
            )

    def user_tables(self, train: TrainView) -> dict[str, Initializer]:
        """One table for each modality, as wide as its part of an item."""
        row = row_of(glorot(train.n_users, self.dim))
        return {USER_TABLE: row} | {f"{USER_TABLE}.{name}": row for name in self.modalities[1:]}

    def parameters(self, train: TrainView) -> dict[str, Initializer]:
        found: dict[str, Initializer] = {}
        for name, value_IF in self.content(train).items():
            found |= layer(f"project.{name}", value_IF.shape[1], self.dim)
        return found

    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Principal:
        near = [
            nearest_items(value_IF, self.neighbours, "equal") * weight
            for value_IF, weight in zip(
                self.content(train).values(), self.modality_weights, strict=True
            )
        ]
        nearest = SparseMatrix.of(scipy.sparse.csr_array(sum(near[1:], near[0])), dtype, device)
        links_UI, trained_on = incidence(train.positives, train.n_items), None
        if self.principal == "global":
            whole = rebuilt(both_ways(normalised(links_UI)), self.dim)
            trained_on = SparseMatrix.of(whole, dtype, device)
        graph, content = (
            BothWays.of(links_UI, dtype, device),
            self.content_there(train, dtype, device),
        )
        return Principal(graph, content, nearest, links_UI, trained_on)

    def in_epoch(self, known: Principal, seed: int, number: int) -> Principal:
        if known.trained_on is not None:
            return replace(known, graph=known.trained_on)
        name = streams.name_of("principal graph")
        generator = streams.numpy_generator(seed, streams.NETWORK_DROPOUT, number, name)
        links_UI = drawn_links(known.links_UI, self.share, generator)
        like = known.nearest.matrix
        return replace(known, graph=BothWays.of(links_UI, like.dtype, like.device))

    def embeddings(self, p: Params, known: Principal) -> Embeddings:
        users = [p[USER_TABLE], *(p[f"{USER_TABLE}.{name}"] for name in self.modalities[1:])]
        items = [
            normalize(
                through(p, f"project.{CONTENT}{name}", self.content_rows(p, known, name)), dim=1
            )
            for name in self.modalities
        ]
        user_UD, item_ID = torch.cat(users, dim=1), torch.cat(items, dim=1)
        near_ID = known.nearest @ item_ID
        user_UD, item_ID = propagate(known.graph, user_UD, item_ID, self.layers)
        return Embeddings(user_UD, item_ID + near_ID)

    def batch_loss(
        self, p: Params, known: Principal, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        made = self.embeddings(p, known)
        user_BD = made.user_UD.index_select(0, batch.user_B)
        positive_BD, negative_BD = (
            made.item_ID.index_select(0, item_B) for item_B in (batch.positive_B, batch.negative_B)
        )
        loss = ranking_loss((user_BD * positive_BD).sum(1), (user_BD * negative_BD).sum(1))
        if self.contrast_weight == 0:
            return loss
        for row_BD in (user_BD, positive_BD):
            one_BD, two_BD = (dropped(row_BD, self.dropout, generator) for _ in range(2))
            half = contrast(one_BD, two_BD, TEMPERATURE) / 2
            loss = loss + self.contrast_weight * half
        return loss


METHODS["pgl"] = Entry(
    build=Pgl,
    summary="central baseline with content: PGL, trained on a principal part of the graph",
    rounds=100,
    protocol="fedmr",
    presets={
        "paper": {},
        "contrast": {"dropout": 0.2, "contrast_weight": 0.05},
        "global": {"principal": "global"},
    },
)
