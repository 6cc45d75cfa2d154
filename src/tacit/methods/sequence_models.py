"""Central networks that read the order of a history: SASRec and GRU4Rec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from tacit.central.networks import glorot
from tacit.central.recurrent import recurrent_states
from tacit.central.sequences import (
    ITEM_BIAS,
    ITEM_TABLE,
    Dropout,
    Loss,
    Read,
    SequenceModel,
)
from tacit.core.optim import Adam, Sgd
from tacit.core.registry import register
from tacit.core.types import Initializer, Params
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry

# SASRec (Kang & McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018): a transformer that
# looks back from each place of a history.
#
# A place has the sum of its item's row, times the square root of the width, and the row of its
# position, which is counted from the end of the window. Blocks of causal self-attention and of a
# perceptron with one hidden layer follow, each as x + Dropout(g(LayerNorm(x))); then a last
# LayerNorm. The score of an item is the product of that state with the item's row.
#
# Kept from the paper: the network, two blocks with one head, width 50, the loss (binary
# cross-entropy with one sampled negative for each place), Adam at 1e-3, batches of 128 histories,
# dropout 0.5 and 50 positions on sparse data, 0.2 and 200 on MovieLens-1M (preset `dense`).
# Adam's second decay 0.98 and the scale of item rows are those of the released code. The paper
# trains on the latest 200 or 50 places of each history, and so does this.
#
# Ours: an epoch takes every history once, where the released code draws histories with replacement;
# dropout is on embeddings and on the output of each sublayer, as the paper's formula has it, and
# not on the weights of the attention; all matrices begin with Glorot's uniform initializer.
# `loss="softmax"` compares with the whole catalogue instead of one negative; several papers found
# it much stronger.


@register("sasrec")
@dataclass(frozen=True)
class SasRec(SequenceModel):
    """SASRec; `blocks` of attention with `heads` heads each.

    >>> SasRec(dim=4, blocks=1, length=3).parameters(10)["position"].shape
    (3, 4)
    """

    whole: ClassVar[bool] = False

    optimiser: Adam | Sgd = Adam(beta2=0.98, lifetime="persistent")
    blocks: int = 2
    heads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks < 1:
            raise TacitError(f"blocks is {self.blocks}; it must be at least 1.")
        if self.heads < 1 or self.dim % self.heads:
            raise TacitError(
                f"heads is {self.heads}; it must be at least 1 and divide dim, which is {self.dim}."
            )

    def parameters(self, n_items: int) -> dict[str, Initializer]:
        dim = self.dim
        found = {ITEM_TABLE: glorot(n_items, dim), "position": glorot(self.length, dim)}
        norms = ["last"]
        for block in range(self.blocks):
            norms += [f"block{block}.attention", f"block{block}.perceptron"]
            for name in ("query", "key", "value", "w1", "w2"):
                found[f"block{block}.{name}"] = glorot(dim, dim)
            for name in ("b1", "b2"):
                found[f"block{block}.{name}"] = Initializer((dim,))
        for name in norms:  # a gain is one more than what is kept
            found |= {f"{name}.gain": Initializer((dim,)), f"{name}.shift": Initializer((dim,))}
        return found

    def states(self, p: Params, read: Read, dropout: Dropout | None) -> Tensor:
        def dropped(x_BLD: Tensor, layer: int) -> Tensor:
            return x_BLD if dropout is None else dropout(x_BLD, layer)

        position_BL = self.length - 1 - read.from_end_BL
        x_BLD = p[ITEM_TABLE][read.item_BL] * self.dim**0.5 + p["position"][position_BL]
        x_BLD = dropped(x_BLD, 0)
        for block in range(self.blocks):
            name = f"block{block}"
            attended_BLD = self._attend(p, name, _normed(p, f"{name}.attention", x_BLD))
            x_BLD = x_BLD + dropped(attended_BLD, 2 * block + 1)
            hidden_BLD = _normed(p, f"{name}.perceptron", x_BLD) @ p[f"{name}.w1"]
            hidden_BLD = torch.relu(hidden_BLD + p[f"{name}.b1"])
            out_BLD = hidden_BLD @ p[f"{name}.w2"] + p[f"{name}.b2"]
            x_BLD = x_BLD + dropped(out_BLD, 2 * block + 2)
        return _normed(p, "last", x_BLD)

    def _attend(self, p: Params, name: str, x_BLD: Tensor) -> Tensor:
        """What each place gathers from itself and the places before it. Padding stands behind all
        real places, so these never see it."""
        rows, length, dim = x_BLD.shape
        split = (rows, length, self.heads, dim // self.heads)
        query, key, value = (
            (x_BLD @ p[f"{name}.{part}"]).view(split).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        logit = query @ key.transpose(2, 3) / (dim // self.heads) ** 0.5
        later_LL = torch.ones((length, length), dtype=torch.bool, device=x_BLD.device).triu(1)
        gathered = logit.masked_fill(later_LL, -torch.inf).softmax(3) @ value
        return gathered.transpose(1, 2).reshape(rows, length, dim)


def _normed(p: Params, name: str, x_BLD: Tensor) -> Tensor:
    gain_D, shift_D = 1 + p[f"{name}.gain"], p[f"{name}.shift"]
    return layer_norm(x_BLD, gain_D.shape, gain_D, shift_D, eps=1e-8)


METHODS["sasrec"] = Entry(
    build=SasRec,
    summary="central baseline with order: SASRec, self-attention over the history",
    rounds=200,
    presets={
        "paper": {},
        "dense": {"length": 200, "dropout": 0.2},
        "softmax": {"length": 200, "dropout": 0.2, "loss": "softmax"},
    },
)


# GRU4Rec (Hidasi et al., "Session-based Recommendations with Recurrent Neural Networks", ICLR 2016;
# Hidasi & Karatzoglou, "Recurrent Neural Networks with Top-k Gains", CIKM 2018): a recurrent
# network over a history.
#
# One layer of gated recurrent units reads rows of items; the score of an item is the product of the
# state with the item's row, plus a bias.
#
# Kept from the papers: one layer of 100 units, the losses `top1` (2016, the default), `bpr_max` and
# `cross_entropy` (2018) with the next items of the other rows of a batch as negatives, dropout 0.5
# on states, batches of 50; and, of 2018, one table of items for what is read and what is scored.
#
# Ours: histories are cut into windows of at most `length` places, counted from the end, and a
# window begins with an empty state; the papers run whole sessions side by side and carry states
# from batch to batch. Adam at 1e-3 stands for their Adagrad; scores have no activation of their
# own; no further negatives are drawn beside those of the batch. `loss="softmax"` compares with the
# whole catalogue.


@register("gru4rec")
@dataclass(frozen=True)
class Gru4Rec(SequenceModel):
    """GRU4Rec; `dim` is the width of the state and of the items' rows.

    >>> Gru4Rec().parameters(10)["gates.item"].shape
    (300, 100)
    """

    dim: int = 100
    batch: int = 50
    loss: Loss = "top1"

    def parameters(self, n_items: int) -> dict[str, Initializer]:
        within = (1 / self.dim) ** 0.5
        gates, bias = (3 * self.dim, self.dim), (3 * self.dim,)
        return {
            ITEM_TABLE: glorot(n_items, self.dim),
            ITEM_BIAS: Initializer((n_items,)),
            "gates.item": Initializer(gates, "uniform", within),
            "gates.state": Initializer(gates, "uniform", within),
            "gates.item_bias": Initializer(bias, "uniform", within),
            "gates.state_bias": Initializer(bias, "uniform", within),
        }

    def states(self, p: Params, read: Read, dropout: Dropout | None) -> Tensor:
        names = ("gates.item", "gates.state", "gates.item_bias", "gates.state_bias")
        item_R, read_BL = read.item_BL.unique(return_inverse=True)
        gates = [p[name] for name in names]
        state_BLD = recurrent_states(p[ITEM_TABLE][item_R], read_BL, *gates)
        return state_BLD if dropout is None else dropout(state_BLD, 0)


METHODS["gru4rec"] = Entry(
    build=Gru4Rec,
    summary="central baseline with order: GRU4Rec, a recurrent network over the history",
    rounds=50,
    presets={
        "paper": {},
        "bpr_max": {"loss": "bpr_max"},
        "softmax": {"loss": "softmax"},
    },
)
