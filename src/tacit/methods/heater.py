"""Heater: items that nobody has touched, by a mixture of experts over their content.

Zhu, Liu & Caverlee, "Recommendation for New Users and New Items via Randomized Training and
Mixture-of-Experts Transformation", SIGIR 2020.

A mixture of experts makes a row y of an item's content: y = tanh(Σ_e a_e · expert_e), where both
the experts and their weights a_e are a tanh of a linear layer. In training a random share of the
rows of every batch goes on with y and the rest with the item's factors z (randomised training), so
that one tower learns to read both. A user's factors pass a tower of their own; a score is the
product of what the two towers say. The loss is the squared error of scores, plus `similarity` times
Σ ‖y − z‖² over all rows of a batch, plus `decay` times the squares of all linear layers.

Kept from the paper and its released code: five experts, half of a batch by content, both weights
1e-4, five negatives, batches of 1024, descent with momentum 0.9 at 0.005 whose rate falls to 0.8 of
itself every ten epochs, weights at normal(0, 0.01), 100 epochs, factors standardised by column and
clipped (users at ±5, items at ±1). `narrow` is 64 wide, as MDiffFR has all methods.

Ours: factors from `mf` (`content_references.py`), a rate that falls in every epoch (to 0.978 of
itself), normal weights that are not cut off at two deviations, content as MDiffFR reads it, clipped
at ±5. The branch for the content of users is left out: nothing here reads content of people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.central.networks import Perceptron, half_squares, linear, sent, through
from tacit.central.samples import PairSamples
from tacit.central.training import require_at_least_one
from tacit.core.optim import Momentum, Optimiser
from tacit.core.registry import register
from tacit.core.types import Initializer, Params
from tacit.errors import TacitError
from tacit.methods.content_references import (
    NARROW,
    USER,
    ContentReference,
    FactorBatch,
    Known,
)
from tacit.methods.entry import METHODS, Entry

_WEIGHT_SCALE = 0.01
_CLIP_USER, _CLIP_ITEM, _CLIP_CONTENT = 5.0, 1.0, 5.0


def standardised(table_ND: Tensor, like_ND: Tensor, clip: float) -> Tensor:
    """Rows in units of the columns of a table: less its mean, over its deviation, clipped.

    >>> table = torch.tensor([[1.0], [3.0]])
    >>> standardised(torch.tensor([[2.0], [4.0], [50.0]]), table, 5.0)[:, 0].tolist()
    [0.0, 2.0, 5.0]
    """
    size_D = like_ND.std(dim=0, correction=0)
    size_D = torch.where(size_D > 0, size_D, torch.ones_like(size_D))
    return ((table_ND - like_ND.mean(dim=0)) / size_D).clamp(-clip, clip)


def mixture(p: Params, content_NF: Tensor, experts: int) -> Tensor:
    """(N, D) what the experts make of content, weighed by a tanh and not by a softmax.

    >>> p = {"experts.w": torch.zeros(1, 2), "experts.b": torch.tensor([9.0, -9.0])}
    >>> p |= {"gate.w": torch.zeros(1, 2), "gate.b": torch.tensor([9.0, 9.0])}
    >>> mixture(p, torch.ones(1, 1), experts=2).tolist()
    [[0.0]]
    """
    expert_NED = torch.tanh(through(p, "experts", content_NF)).unflatten(1, (experts, -1))
    weight_NE = torch.tanh(through(p, "gate", content_NF))
    return torch.tanh((weight_NE[:, :, None] * expert_NED).sum(dim=1))


def by_content(count: int, share: float, generator: np.random.Generator) -> np.ndarray:
    """(count,) true for a share of the rows, rounded down, drawn without replacement.

    >>> int(by_content(5, 0.5, np.random.default_rng(0)).sum())
    2
    """
    chosen_N = np.zeros(count, bool)
    chosen_N[generator.choice(count, int(share * count), replace=False)] = True
    return chosen_N


@dataclass(frozen=True, eq=False)
class Batch(FactorBatch):
    """`by_content_N` says which samples go on with what content gives. Content stands once for each
    of the R items of the batch, since many samples share one."""

    content_RF: Tensor
    row_N: Tensor  # which row of content a sample reads
    label_N: Tensor
    by_content_N: Tensor


@register("heater")
@dataclass(frozen=True)
class Heater(ContentReference[Batch]):
    """Heater; `mixing` is the share of a batch that is trained by content.

    >>> Heater().experts, Heater().sampling.negatives
    (5, 5)
    """

    experts: int = 5
    mixing: float = 0.5
    similarity: float = 1e-4
    decay: float = 1e-4
    optimiser: Optimiser = Momentum(0.005, decay=0.978)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least_one(self, "experts")
        if not 0 < self.mixing <= 1:
            raise TacitError(f"mixing is {self.mixing}; it must be above 0 and at most 1.")

    def _towers(self) -> tuple[Perceptron, Perceptron]:
        sizes = (self.width, self.width, self.width, _WEIGHT_SCALE)
        return Perceptron("user", *sizes), Perceptron("item", *sizes)

    @property
    def _decayed(self) -> tuple[str, ...]:
        user, item = self._towers()
        layers = (*user.weights, *user.biases, *item.weights, *item.biases)
        return ("experts.w", "experts.b", "gate.w", "gate.b", *layers)

    def networks(self, feature_width: int) -> dict[str, tuple[Perceptron, ...]]:
        return {"": self._towers()}

    def layers(self, feature_width: int) -> dict[str, Initializer]:
        experts = linear("experts", feature_width, self.experts * self.width, _WEIGHT_SCALE)
        return experts | linear("gate", feature_width, self.experts, _WEIGHT_SCALE)

    def loss(
        self,
        p: Params,
        statistics: Params,
        batch: Batch,
        training: np.random.Generator | None,
    ) -> Tensor:
        """The loss of a batch."""
        user_tower, item_tower = self._towers()
        p = p | statistics
        made_ND = mixture(p, batch.content_RF, self.experts)[batch.row_N]
        mixed_ND = torch.where(batch.by_content_N[:, None], made_ND, batch.item_ND)
        score_N = (user_tower(p, batch.user_ND, training) * item_tower(p, mixed_ND, training)).sum(
            1
        )
        error = (score_N - batch.label_N).square().mean()
        distance = (made_ND - batch.item_ND).square().sum()
        return error + self.similarity * distance + 2 * self.decay * half_squares(p, self._decayed)

    def batches(
        self, known: Known, samples: PairSamples, generator: np.random.Generator
    ) -> Iterator[Batch]:
        user_UD = standardised(known.user_UD, known.user_UD, _CLIP_USER)
        item_WD = standardised(known.item_WD, known.item_WD, _CLIP_ITEM)
        content_WF = known.feature_WF.clamp(-_CLIP_CONTENT, _CLIP_CONTENT)
        for piece in self.pieces(len(samples), generator):
            columns = [column_N[piece] for column_N in samples.arrays]
            columns += [by_content(len(piece), self.mixing, generator)]
            columns += np.unique(columns[1], return_inverse=True)
            user_N, item_N, label_N, chosen_N, item_R, row_N = (
                sent(column, user_UD.device) for column in columns
            )
            yield Batch(
                user_UD[user_N],
                item_WD[item_N],
                content_WF[item_R],
                row_N,
                label_N.to(user_UD),
                chosen_N,
            )

    def user_vectors(self, p: Params, factors: Params, user_ND: Tensor) -> Tensor:
        return self._towers()[0](p, standardised(user_ND, factors[USER], _CLIP_USER), None)

    def item_vectors(self, p: Params, known: Known) -> Tensor:
        tower = self._towers()[1]
        item_WD = standardised(known.item_WD, known.item_WD, _CLIP_ITEM)
        content_IF = known.feature_IF.clamp(-_CLIP_CONTENT, _CLIP_CONTENT)
        made_ID = mixture(p, content_IF, self.experts)
        return known.ranked(tower(p, item_WD, None), tower(p, made_ID, None))


METHODS["heater"] = Entry(
    build=Heater,
    summary="central, for cold items: a mixture of experts over content, randomised training",
    rounds=Heater().factor_epochs + 100,
    protocol="mdifffr",
    presets={"paper": {}, "narrow": {"factors": NARROW}},
    split="cold",
)
