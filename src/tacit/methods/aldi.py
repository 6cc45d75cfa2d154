"""ALDI: students of content learn from the factors of warm items, which are their teacher.

Huang et al., "Aligning Distillation For Cold-Start Item Recommendation", CIKM 2023.

Two towers are the students: one reads an item's content, the other a user's factors; their product
is a score s. The teacher's score t is the product of the factors. On pairs of a positive i and a
negative j, with Δ for what i has more than j, the loss is

    softplus(−Δs)                                 what was chosen
    + α · ω · BCE(Δs, σ(Δt))                      ranking: as clear a choice as the teacher's
    + β · ω · BCE(δs, σ(δt))                      identification: as unlike others as the teacher's
    + γ · (|t_i − s_i| + |t_j − s_j|)             rating distribution: on the teacher's scale

where δ = ‖g_i‖² − mean_j g_i · g_j over the negatives of the batch, of students' rows or factors.
`weighted` lets ω grow with how surely an item's factors are known: ω = min(tanh(a f), tanh 4) with
f = Σ 1/|N(u)| over the people u who have the item, and a = 4 · items / people. Without it ω is 1.

Kept from the paper and its released code: α 0.9, β 0.05, γ 0.1, one hidden layer 200 wide with a
batch norm and tanh, weights at normal(0, 0.01), decay 1e-4 · ½(‖W‖² + ‖b‖²), Adam at 1e-3, batches
of 1024, no weights ω. Warm items are ranked by their factors, others by the students. `narrow` has
factors 64 wide, as MDiffFR has them in all methods.

Ours: factors from `mf` and pairs of every interaction with one drawn item
(`content_references.py`); normal weights that are not cut off at two deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from tacit.central.networks import Perceptron, half_squares, sent
from tacit.central.samples import PairSamples
from tacit.central.training import require_at_least_one
from tacit.core.optim import Adam, Optimiser
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.methods.content_references import (
    NARROW,
    ContentReference,
    FactorBatch,
    Known,
    first_pairs,
)
from tacit.methods.entry import METHODS, Entry

_WEIGHT_SCALE = 0.01
_MOMENTUM = 0.01  # of running statistics
_STEEPNESS = 4.0


def distilled(logit_N: Tensor, teacher_N: Tensor, weight_N: Tensor) -> Tensor:
    """The mean of ω · BCE(logit, σ(teacher)).

    >>> one = torch.zeros(1)
    >>> round(distilled(one, one, torch.tensor([2.0])).item(), 6)  # 2 log 2
    1.386294
    """
    target_N = torch.sigmoid(teacher_N)
    return binary_cross_entropy_with_logits(logit_N, target_N, weight_N)


def distinctness(row_ND: Tensor, other_MD: Tensor) -> Tensor:
    """‖g_i‖² − mean_j g_i · g_j: how much more a row is like itself than like others.

    >>> distinctness(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 5.0], [0.0, 1.0]])).tolist()
    [3.0]
    """
    return row_ND.square().sum(1) - row_ND @ other_MD.mean(dim=0)


def sureness(train: TrainView) -> np.ndarray:
    """(W,) min(tanh(a f), tanh 4): how much an item's factors count, by who has it."""
    lists = train.positives
    share_N = 1.0 / lists.size_U[lists.list_N]
    found_W = np.bincount(lists.item_N, share_N, minlength=train.n_items)
    steep = _STEEPNESS * train.n_items / train.n_users
    return np.minimum(np.tanh(steep * found_W), np.tanh(_STEEPNESS))


@dataclass(frozen=True, eq=False)
class Batch(FactorBatch):
    """Pairs: factors of negatives too, content of both, and weights ω."""

    negative_ND: Tensor
    content_NF: Tensor
    negative_NF: Tensor
    weight_N: Tensor


@register("aldi")
@dataclass(frozen=True)
class Aldi(ContentReference[Batch]):
    """ALDI; `alpha`, `beta` and `gamma` weigh ranking, identification and rating distribution.

    >>> Aldi().alpha, Aldi().beta, Aldi().gamma, Aldi().ranked_width
    (0.9, 0.05, 0.1, 400)
    """

    hidden: int = 200
    alpha: float = 0.9
    beta: float = 0.05
    gamma: float = 0.1
    weighted: bool = False
    decay: float = 1e-4
    optimiser: Optimiser = Adam()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least_one(self, "hidden")
        for name in ("alpha", "beta", "gamma"):
            if not getattr(self, name) >= 0:
                raise TacitError(f"{name} is {getattr(self, name)}; it must not be below 0.")

    @property
    def ranked_width(self) -> int:
        return 2 * self.width  # what students say, and what the teacher does

    def _students(self, feature_width: int) -> tuple[Perceptron, Perceptron]:
        sizes = (self.hidden, self.width, _WEIGHT_SCALE, _MOMENTUM)
        return Perceptron("user", self.width, *sizes), Perceptron("item", feature_width, *sizes)

    def networks(self, feature_width: int) -> dict[str, tuple[Perceptron, ...]]:
        return {"": self._students(feature_width)}

    def loss(
        self,
        p: Params,
        statistics: Params,
        batch: Batch,
        training: np.random.Generator | None,
    ) -> Tensor:
        """The loss of a batch; positives and negatives pass the students together."""
        p = p | statistics
        user_tower, item_tower = students = self._students(batch.content_NF.shape[1])
        user_ND = user_tower(p, batch.user_ND, training)
        both = item_tower(p, torch.cat([batch.content_NF, batch.negative_NF]), training)
        item_ND, negative_ND = both.chunk(2)
        said_N, said_negative_N = (user_ND * item_ND).sum(1), (user_ND * negative_ND).sum(1)
        known_N = (batch.user_ND * batch.item_ND).sum(1)
        known_negative_N = (batch.user_ND * batch.negative_ND).sum(1)
        chosen = softplus(-(said_N - said_negative_N)).mean()
        ranking = distilled(said_N - said_negative_N, known_N - known_negative_N, batch.weight_N)
        identification = distilled(
            distinctness(item_ND, negative_ND),
            distinctness(batch.item_ND, batch.negative_ND),
            batch.weight_N,
        )
        apart_N = (known_N - said_N).abs() + (known_negative_N - said_negative_N).abs()
        names = tuple(name for one in students for name in (*one.weights, *one.biases))
        return (
            chosen
            + self.alpha * ranking
            + self.beta * identification
            + self.gamma * apart_N.mean()
            + self.decay * half_squares(p, names)
        )

    def batches(
        self, known: Known, samples: PairSamples, generator: np.random.Generator
    ) -> Iterator[Batch]:
        pairs, content_WF = first_pairs(samples), known.feature_WF
        device = content_WF.device
        weight_W = content_WF.new_ones(len(content_WF))
        if self.weighted:
            weight_W = torch.from_numpy(sureness(known.train)).to(content_WF)
        for piece in self.pieces(len(pairs[0]), generator):
            user_N, item_N, negative_N = (sent(code_N[piece], device) for code_N in pairs)
            yield Batch(
                known.user_UD[user_N],
                known.item_WD[item_N],
                known.item_WD[negative_N],
                content_WF[item_N],
                content_WF[negative_N],
                weight_W[item_N],
            )

    def user_vectors(self, p: Params, factors: Params, user_ND: Tensor) -> Tensor:
        student = self._students(1)[0]
        return torch.cat([student(p, user_ND, None), user_ND], dim=1)

    def item_vectors(self, p: Params, known: Known) -> Tensor:
        student = self._students(known.feature_IF.shape[1])[1]
        said_ID = student(p, known.feature_IF, None)
        nothing_WD = torch.zeros_like(known.item_WD)
        return known.ranked(
            torch.cat([nothing_WD, known.item_WD], dim=1),
            torch.cat([said_ID, torch.zeros_like(said_ID)], dim=1),
        )


METHODS["aldi"] = Entry(
    build=Aldi,
    summary="central, for cold items: students of content, taught by the factors of warm items",
    rounds=Aldi().factor_epochs + 100,
    protocol="mdifffr",
    presets={"paper": {}, "narrow": {"factors": NARROW}},
    split="cold",
)
