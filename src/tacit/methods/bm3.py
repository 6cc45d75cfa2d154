"""BM3: Zhou et al., "Bootstrap Latent Representations for Multi-modal Recommendation", WWW 2023,
central.

There are no negatives. Rows of users and items go through the graph; what stands for an item is
that and its own row once more. A user and an item of theirs are asked to predict each other, and
each modality to predict the item and itself: one linear layer P, the same for all, turns a vector
into a prediction, and what is predicted is the vector with some entries left out and without a
gradient. With c(a, b) = 1 - mean cosine of rows and ~ for such a target, the loss is

    c(P u, i~) + c(P i, u~) + w sum_m [c(P m, i~) + c(P m, m~)] + penalty,

where the penalty has the norms, not squared, of all users' and all items' vectors over the number
of items. The score is P(u) · P(i).

Kept: the losses, w = 2, Adam at 1e-3, batches of 2,048, one graph layer and dropout 0.5 of the
grids {1, 2} and {0.3, 0.5}, and, of the released code, tables of content that are trained as any
other parameter (`train_content`; the paper does not say so). Preset `fedmr` is 512 wide, which
alone gives FedMR's count of parameters; the paper is 64 wide.

Ours: a row that stands in a batch twice is dropped out twice, each time anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tacit.central.embeddings import (
    ITEM_TABLE,
    USER_TABLE,
    Embeddings,
    require_rate,
    require_weights,
    summed_norms,
)
from tacit.central.graph import BothWays, incidence, propagate
from tacit.central.multimodal import GraphAndContent, GraphContentModel, require_layers
from tacit.central.networks import dropped, glorot, layer, row_of, through
from tacit.central.samples import Batch, once
from tacit.core.registry import register
from tacit.core.types import CONTENT, Initializer, Params
from tacit.data.views import TrainView
from tacit.methods.entry import METHODS, Entry
from tacit.parts.views import xavier

PREDICTOR = "predictor"


def unlike(prediction_BD: Tensor, target_BD: Tensor) -> Tensor:
    """One minus the mean cosine of rows; no gradient flows into the target.

    >>> unlike(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])).item()
    1.0
    """
    return 1 - cosine_similarity(prediction_BD, target_BD.detach(), dim=1).mean()


@register("bm3")
@dataclass(frozen=True)
class Bm3(GraphContentModel[GraphAndContent]):
    """BM3; `modality_weight` is w, `dropout` that of targets, `layers` those of the graph.

    >>> Bm3().sampling is None
    True
    """

    layers: int = 1
    dropout: float = 0.5
    modality_weight: float = 2.0
    penalty: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_layers(self.layers)
        require_rate("dropout", self.dropout)
        require_weights(modality_weight=self.modality_weight, penalty=self.penalty)

    @property
    def sampling(self) -> None:
        """Nothing: there are no negatives."""
        return None

    def user_tables(self, train: TrainView) -> dict[str, Initializer]:
        return {USER_TABLE: row_of(glorot(train.n_users, self.dim))}

    def parameters(self, train: TrainView) -> dict[str, Initializer]:
        found = {ITEM_TABLE: glorot(train.n_items, self.dim)}
        found |= layer(PREDICTOR, self.dim, self.dim)
        found[f"{PREDICTOR}.w"] = xavier(self.dim, self.dim)
        for name, value_IF in self.content(train).items():
            found |= layer(f"project.{name}", value_IF.shape[1], self.dim)
            found[f"project.{name}.w"] = xavier(value_IF.shape[1], self.dim)
        return found

    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> GraphAndContent:
        graph = BothWays.of(incidence(train.positives, train.n_items), dtype, device)
        return GraphAndContent(graph, self.content_there(train, dtype, device))

    def vectors(self, p: Params, known: GraphAndContent) -> tuple[Tensor, Tensor]:
        """All users and all items, before they are predictions."""
        user_UD, item_ID = propagate(known.graph, p[USER_TABLE], p[ITEM_TABLE], self.layers)
        return user_UD, item_ID + p[ITEM_TABLE]

    def embeddings(self, p: Params, known: GraphAndContent) -> Embeddings:
        return Embeddings(*(through(p, PREDICTOR, rows) for rows in self.vectors(p, known)))

    def batch_loss(
        self, p: Params, known: GraphAndContent, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        user_UD, item_ID = self.vectors(p, known)
        # rows that stand in a batch many times are predicted from once
        (user_R, user_B), (item_R, item_B) = once(batch.user_B), once(batch.positive_B)
        user_RD, item_RD = user_UD.index_select(0, user_R), item_ID.index_select(0, item_R)
        user_target_BD, item_target_BD = (
            dropped(row_RD.detach().index_select(0, row_B), self.dropout, generator)
            for row_RD, row_B in ((user_RD, user_B), (item_RD, item_B))
        )
        for_user_BD, for_item_BD = (
            through(p, PREDICTOR, row_RD).index_select(0, row_B)
            for row_RD, row_B in ((user_RD, user_B), (item_RD, item_B))
        )
        loss = unlike(for_user_BD, item_target_BD) + unlike(for_item_BD, user_target_BD)
        for name in self.modalities:
            content_RF = self.content_rows(p, known, name).index_select(0, item_R)
            modality_RD = through(p, f"project.{CONTENT}{name}", content_RF)
            prediction_BD = through(p, PREDICTOR, modality_RD).index_select(0, item_B)
            own_target_BD = modality_RD.detach().index_select(0, item_B)
            own_target_BD = dropped(own_target_BD, self.dropout, generator)
            both = unlike(prediction_BD, item_target_BD) + unlike(prediction_BD, own_target_BD)
            loss = loss + self.modality_weight * both
        return loss + self.penalty * summed_norms(user_UD, item_ID)


METHODS["bm3"] = Entry(
    build=Bm3,
    summary="central baseline with content: BM3, users, items and content predict each other",
    rounds=100,
    protocol="fedmr",
    presets={"paper": {}, "fedmr": {"dim": 512}},
)
