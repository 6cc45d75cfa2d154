"""VBPR: He & McAuley, "VBPR: Visual Bayesian Personalized Ranking from Implicit Feedback", AAAI
2016, central.

An item is its own row with a projection of its content beside it, a user one row as wide as both:
score = u · [e_i ; W f_i + b]. The loss is BPR: an item of the user against one that is not, drawn
anew for every interaction in every epoch.

Kept from FedMR and FedVLR, who compare with the form in which later work runs it: content of all
modalities side by side and as it is, one projection of it, width 64 for each half, no biases, Adam
at 1e-3, batches of 2,048, and the sum of norms, not squared, over the batch as the penalty. Rows
begin with Glorot's uniform initializer, the projection with his normal one.

The paper itself has more and less: `biases` are its bias of an item and its bias of content,
beta_i + beta' · f_i (what it has for the user and for everybody cancels between two items), and
`squares` its penalty. Preset `original` has both, 10 + 10 wide; its optimiser and batches stay
ours. A penalty of biases is none.

Ours: the weight 0.1 of the penalty, of the published grid {2, 1, 0.1, .., 1e-5}; what a batch reads
of users and items is penalised alike, and the projection is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.central.embeddings import (
    ITEM_TABLE,
    USER_TABLE,
    Embeddings,
    ranking_loss,
    require_weights,
    summed_norms,
    summed_squares,
)
from tacit.central.multimodal import ContentModel
from tacit.central.networks import glorot, row_of, through
from tacit.central.samples import Batch, once
from tacit.core.registry import register
from tacit.core.types import Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry
from tacit.parts.views import xavier

PROJECT, BIAS, CONTENT_BIAS = "project", "bias", "bias.content"


@register("vbpr")
@dataclass(frozen=True)
class Vbpr(ContentModel[Tensor]):
    """VBPR; `dim` is the width of an item's own row, and again that of its projected content.

    `penalty` weighs the norms of what a batch reads, or their squares.

    >>> Vbpr().dim, Vbpr(biases=True).biases
    (64, True)
    """

    sampling: Sampling = Sampling(negatives=1)
    penalty: float = 0.1
    penalised: Literal["norms", "squares"] = "norms"
    biases: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_weights(penalty=self.penalty)
        if self.penalised not in ("norms", "squares"):
            raise TacitError(f"penalised is {self.penalised!r}; use norms or squares.")

    def user_tables(self, train: TrainView) -> dict[str, Initializer]:
        return {USER_TABLE: row_of(glorot(train.n_users, 2 * self.dim))}

    def parameters(self, train: TrainView) -> dict[str, Initializer]:
        width = sum(value_IF.shape[1] for value_IF in self.content(train).values())
        found = {
            ITEM_TABLE: glorot(train.n_items, self.dim),
            f"{PROJECT}.w": xavier(width, self.dim),
            f"{PROJECT}.b": Initializer((self.dim,)),
        }
        if self.biases:
            found |= {BIAS: Initializer((train.n_items,)), CONTENT_BIAS: Initializer((width,))}
        return found

    def known(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Tensor:
        """(I, F) the content of all modalities, side by side."""
        side_by_side = np.concatenate(list(self.content(train).values()), axis=1)
        return torch.from_numpy(side_by_side).to(device, dtype)

    def item_rows(self, p: Params, content_IF: Tensor, item_R: Tensor) -> tuple[Tensor, Tensor]:
        """(R, 2 D) vectors of items, and (R,) their biases."""
        content_RF, own_RD = (
            table.index_select(0, item_R) for table in (content_IF, p[ITEM_TABLE])
        )
        row_RD = torch.cat([own_RD, through(p, PROJECT, content_RF)], dim=1)
        if not self.biases:
            return row_RD, row_RD.new_zeros(len(row_RD))
        return row_RD, p[BIAS].index_select(0, item_R) + content_RF @ p[CONTENT_BIAS]

    def embeddings(self, p: Params, known: Tensor) -> Embeddings:
        item_ID, bias_I = self.item_rows(p, known, torch.arange(len(known), device=known.device))
        return Embeddings(p[USER_TABLE], item_ID, bias_I if self.biases else None)

    def batch_loss(
        self, p: Params, known: Tensor, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        both_2B = torch.cat([batch.positive_B, batch.negative_B])
        item_R, place_2B = once(both_2B)  # each is projected once
        row_RD, bias_R = self.item_rows(p, known, item_R)
        user_BD = p[USER_TABLE].index_select(0, batch.user_B)
        positive_BD, negative_BD = row_RD.index_select(0, place_2B).chunk(2)
        positive_B, negative_B = bias_R.index_select(0, place_2B).chunk(2)
        loss = ranking_loss(
            (user_BD * positive_BD).sum(1) + positive_B, (user_BD * negative_BD).sum(1) + negative_B
        )
        penalise = summed_norms if self.penalised == "norms" else summed_squares
        return loss + self.penalty * penalise(user_BD, positive_BD, negative_BD)


METHODS["vbpr"] = Entry(
    build=Vbpr,
    summary="central baseline with content: VBPR, id row beside projected content, BPR",
    rounds=100,
    protocol="fedmr",
    presets={
        "paper": {},
        "original": {"dim": 10, "biases": True, "penalised": "squares"},
    },
)
