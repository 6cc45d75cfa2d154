"""MGCN: Yu et al., "Multi-View Graph Convolutional Network for Multimedia Recommendation", ACM MM
2023, central.

1. Purification: content says which entries of an item's own row belong to a modality,
   x_m = e_i * sigmoid(gate_m(project_m(f_m))).
2. Collaborative view: rows of users and items go through their graph, C.
3. Item view: x_m goes once through the graph of items nearest in modality m; a user has the sum of
   the own items' x_m, normalised as the graph is.
4. Behaviour-aware fuser: with a = softmax over modalities of q(x_m), the common part is
   x_c = sum_m a_m x_m, and behaviour weighs what is beyond it,
   side = (x_c + sum_m sigmoid(prefer_m(C)) * (x_m - x_c)) / (M + 1).
5. Vectors are C + side; the score is their product.

The loss is BPR, plus half the squares of what a batch reads over the size of a batch, plus gamma
times a contrast of side and C, for the users and for the items of the batch.

Kept: all of that, for any number of modalities; width 64, two layers of the graph of users and
items, 10 nearest items weighted by cosine, penalty 1e-4, temperature 0.2, gamma of {0.001, 0.01,
0.1}, Adam at 1e-3 times 0.96 every 50 epochs, batches of 2,048; of the released code, trained
tables of content (`train_content`), and nearest items that are those of the content as it came.

Ours: gamma 0.01 in the preset; items whose cosines sum to nothing have no nearest items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.central.embeddings import (
    ITEM_TABLE,
    USER_TABLE,
    Embeddings,
    contrast,
    ranking_loss,
    require_weights,
    summed_squares,
)
from tacit.central.graph import BothWays, SparseMatrix, incidence, nearest_items, propagate
from tacit.central.multimodal import GraphAndContent, GraphContentModel, require_layers
from tacit.central.networks import glorot, layer, row_of, through
from tacit.central.samples import Batch
from tacit.core.optim import Adam, Sgd
from tacit.core.registry import register
from tacit.core.types import CONTENT, Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry

TEMPERATURE = 0.2  # of the contrast


@dataclass(frozen=True, eq=False)
class Views(GraphAndContent):
    """Beside the graph: nearest items by modality, and the way from items to users."""

    nearest: dict[str, SparseMatrix]
    to_users: SparseMatrix


def purified(p: Params, name: str, content_IF: Tensor) -> Tensor:
    """(I, D) the entries of items' own rows that their content lets through.

    >>> p = {ITEM_TABLE: torch.tensor([[4.0]]), "project.a.w": torch.zeros(1, 1)}
    >>> p |= {"project.a.b": torch.ones(1), "purify.a.w": torch.zeros(1, 1)}
    >>> purified(p | {"purify.a.b": torch.zeros(1)}, "a", torch.ones(1, 1)).item()
    2.0
    """
    projected_ID = through(p, f"project.{name}", content_IF)
    return p[ITEM_TABLE] * torch.sigmoid(through(p, f"purify.{name}", projected_ID))


def fused(p: Params, behaviour_ND: Tensor, views: dict[str, Tensor]) -> Tensor:
    """(N, D) what modalities have in common, and of the rest what behaviour asks for.

    >>> p = {"query.w": torch.eye(1), "query.b": torch.zeros(1), "query.v": torch.zeros(1)}
    >>> p |= {f"prefer.{m}.{part}": torch.zeros(1, 1)[0 if part == "b" else slice(None)]
    ...       for m in "ab" for part in "wb"}
    >>> views = {"a": torch.tensor([[1.0]]), "b": torch.tensor([[5.0]])}
    >>> fused(p, torch.zeros(1, 1), views).item()  # (3 + (1 - 3) / 2 + (5 - 3) / 2) / 3
    1.0
    """
    asked = [torch.tanh(through(p, "query", view_ND)) @ p["query.v"] for view_ND in views.values()]
    share_NM = torch.stack(asked, dim=1).softmax(dim=1)
    common_ND = (share_NM[:, :, None] * torch.stack(list(views.values()), dim=1)).sum(dim=1)
    total_ND = common_ND
    for name, view_ND in views.items():
        preferred_ND = torch.sigmoid(through(p, f"prefer.{name}", behaviour_ND))
        total_ND = total_ND + preferred_ND * (view_ND - common_ND)
    return total_ND / (len(views) + 1)


@register("mgcn")
@dataclass(frozen=True)
class Mgcn(GraphContentModel[Views]):
    """MGCN; `layers` are those of the graph of users and items, `contrast_weight` is gamma.

    >>> Mgcn().neighbours
    10
    """

    optimiser: Adam | Sgd = Adam(lifetime="persistent", decay=0.96 ** (1 / 50))
    sampling: Sampling = Sampling(negatives=1)
    layers: int = 2
    neighbours: int = 10
    penalty: float = 1e-4
    contrast_weight: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require_layers(self.layers)
        require_weights(penalty=self.penalty, contrast_weight=self.contrast_weight)
        if self.neighbours < 1:
            raise TacitError(f"neighbours is {self.neighbours}; it must be at least 1.")

    def user_tables(self, train: TrainView) -> dict[str, Initializer]:
        return {USER_TABLE: row_of(glorot(train.n_users, self.dim))}

    def parameters(self, train: TrainView) -> dict[str, Initializer]:
        dim = self.dim
        found = {ITEM_TABLE: glorot(train.n_items, dim)}
        for name, value_IF in self.content(train).items():
            found |= layer(f"project.{name}", value_IF.shape[1], dim)
            found |= layer(f"purify.{name}", dim, dim) | layer(f"prefer.{name}", dim, dim)
        found |= layer("query", dim, dim)
        found["query.v"] = Initializer((dim,), "uniform", (1 / dim) ** 0.5)
        return found

    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Views:
        graph = BothWays.of(incidence(train.positives, train.n_items), dtype, device)
        nearest = {
            name: SparseMatrix.of(
                nearest_items(value_IF, self.neighbours, "similarity"), dtype, device
            )
            for name, value_IF in self.content(train).items()
        }
        content = self.content_there(train, dtype, device)
        return Views(graph, content, nearest, graph.to_users)

    def views(self, p: Params, known: Views) -> tuple[Tensor, Tensor]:
        """(U + I, D) what behaviour says of users and items, and what content does."""
        behaviour_ND = torch.cat(propagate(known.graph, p[USER_TABLE], p[ITEM_TABLE], self.layers))
        seen = {}
        for modality in self.modalities:
            name, content_IF = CONTENT + modality, self.content_rows(p, known, modality)
            item_ID = known.nearest[name] @ purified(p, name, content_IF)
            seen[name] = torch.cat([known.to_users @ item_ID, item_ID])
        return behaviour_ND, fused(p, behaviour_ND, seen)

    def embeddings(self, p: Params, known: Views) -> Embeddings:
        behaviour_ND, side_ND = self.views(p, known)
        user_UD, item_ID = (behaviour_ND + side_ND).tensor_split([len(p[USER_TABLE])])
        return Embeddings(user_UD, item_ID)

    def batch_loss(
        self, p: Params, known: Views, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        behaviour_ND, side_ND = self.views(p, known)
        first_item = len(p[USER_TABLE])
        vector_ND = behaviour_ND + side_ND
        positive_B = batch.positive_B + first_item
        user_BD, positive_BD, negative_BD = (
            vector_ND.index_select(0, row_B)
            for row_B in (batch.user_B, positive_B, batch.negative_B + first_item)
        )
        loss = ranking_loss((user_BD * positive_BD).sum(1), (user_BD * negative_BD).sum(1))
        # over the size of a whole batch, also in the last one, which may be smaller
        scale = self.penalty * len(batch) / self.batch
        loss = loss + scale * summed_squares(user_BD, positive_BD, negative_BD)
        for row_B in (positive_B, batch.user_B):
            side_BD, behaviour_BD = (
                rows_ND.index_select(0, row_B) for rows_ND in (side_ND, behaviour_ND)
            )
            both = contrast(side_BD, behaviour_BD, TEMPERATURE)
            loss = loss + self.contrast_weight * both
        return loss


METHODS["mgcn"] = Entry(
    build=Mgcn,
    summary="central baseline with content: MGCN, graphs of behaviour and of alike items",
    rounds=100,
    protocol="fedmr",
)
