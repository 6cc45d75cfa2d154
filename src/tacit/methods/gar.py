"""GAR (Chen et al., "Generative Adversarial Framework for Cold-Start Item Recommendation", SIGIR
2022): a generator of item factors from content, against a recommender that tells them apart.

The generator G makes a row of an item's content. The recommender D scores a user's factors with an
item's row: two towers and a product. On every batch of (user, positive i, negative j) both descend,
one after the other. With d the score that D gives, and the row of the positive real or made:

    D:  softplus(−(d(real i) − (1 − β) d(made i) − β d(j)))
    G:  (1 − α) softplus(−(d(made i) − d(real i))) + α mean|G(c) − z|

So D puts real rows above made ones and above negatives, and G tries to be ranked as real rows are.
Only negatives tell D which items a person does not have, and they have a share of β: with the
released 0.1 nine parts in ten of D are about which rows were made. On ML-100K a search at that β
ended at chance on the test part; with 0.9 among its settings validation prefers that, and the row
is above chance (`lab/tables/coldstart.toml`), though still below Heater and ALDI. G has no
negatives at all: a row that is high for everybody serves it as well.

While one half descends, the other stands as it does outside of training: running statistics, no
dropout, no gradient.

Kept from the paper and its released code: α 0.05, β 0.1, towers of one hidden layer 200 wide with
batch norms and tanh, dropout 0.1 in G and 0.5 in D, weights of both decayed by 1e-3 · ½‖W‖²,
Adam at 1e-3 for each, batches of 1024, Glorot's initializer. `narrow` has factors 64 wide, as
MDiffFR has them in all methods.

Ours: factors from `mf` and pairs of every interaction with one drawn item
(`content_references.py`), where released code draws users and then an interaction of each; a fixed
number of epochs, of which validation picks one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tacit.central.networks import Perceptron, half_squares, sent
from tacit.central.samples import PairSamples
from tacit.central.training import require_at_least_one
from tacit.core.optim import Adam, Optimiser
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.methods.content_references import (
    NARROW,
    ContentReference,
    FactorBatch,
    Known,
    States,
    beginning,
    first_pairs,
)
from tacit.methods.entry import METHODS, Entry

_MOMENTUM = 0.01  # of running statistics
_GENERATOR, _RECOMMENDER = "generator:", "recommender:"


def recommender_loss(real_N: Tensor, made_N: Tensor, negative_N: Tensor, beta: float) -> Tensor:
    """The mean of softplus(−(d(real) − (1 − β) d(made) − β d(negative))).

    >>> scores = torch.tensor([2.0]), torch.tensor([1.0]), torch.tensor([3.0])
    >>> round(recommender_loss(*scores, beta=0.25).item(), 6)  # softplus(−(2 − 0.75 − 0.75))
    0.474077
    """
    return softplus(-(real_N - (1 - beta) * made_N - beta * negative_N)).mean()


def generator_loss(
    real_N: Tensor, made_N: Tensor, made_ND: Tensor, item_ND: Tensor, alpha: float
) -> Tensor:
    """(1 − α) of what it takes to be ranked as real rows are, and α of the distance to these.

    >>> rows = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    >>> scores = torch.tensor([1.0]), torch.tensor([1.0])
    >>> round(generator_loss(*scores, *rows, alpha=0.5).item(), 6)  # (log 2 + 1.5) / 2
    1.096574
    """
    ranked = softplus(-(made_N - real_N)).mean()
    return (1 - alpha) * ranked + alpha * (made_ND - item_ND).abs().mean()


@dataclass(frozen=True, eq=False)
class Batch(FactorBatch):
    """Pairs: factors of negatives too, and the content of positives."""

    negative_ND: Tensor
    content_NF: Tensor


@register("gar")
@dataclass(frozen=True)
class Gar(ContentReference[Batch]):
    """GAR; `alpha` weighs the distance of made rows from real ones, `beta` the drawn negatives.

    >>> Gar().alpha, Gar().beta
    (0.05, 0.1)
    """

    hidden: int = 200
    alpha: float = 0.05
    beta: float = 0.1
    decay: float = 1e-3
    optimiser: Optimiser = Adam()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least_one(self, "hidden")
        for name in ("alpha", "beta"):
            if not 0 <= getattr(self, name) <= 1:
                raise TacitError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1.")

    def _generator(self, feature_width: int) -> Perceptron:
        sizes = (feature_width, self.hidden, self.width)
        return Perceptron("made", *sizes, momentum=_MOMENTUM, dropout=0.1)

    def _recommender(self) -> tuple[Perceptron, Perceptron]:
        user, item = (
            Perceptron(
                name,
                self.width,
                self.hidden,
                self.width,
                momentum=_MOMENTUM,
                norm_first=True,
                dropout=0.5,
            )
            for name in ("user", "item")
        )
        return user, item

    def networks(self, feature_width: int) -> dict[str, tuple[Perceptron, ...]]:
        return {_RECOMMENDER: self._recommender(), _GENERATOR: (self._generator(feature_width),)}

    def scores(
        self, p: Params, user_ND: Tensor, items_ND: Tensor, training: np.random.Generator | None
    ) -> Tensor:
        """The scores of rows of items, with users as often as there are rows for each."""
        user, item = self._recommender()
        times = len(items_ND) // len(user_ND)
        if training is None:  # the same person says the same each time
            said_ND = user(p, user_ND, None).repeat(times, 1)
        else:
            said_ND = user(p, user_ND.repeat(times, 1), training)
        return (said_ND * item(p, items_ND, training)).sum(1)

    def recommender_step(
        self,
        p: Params,
        statistics: Params,
        made_ND: Tensor,
        batch: Batch,
        training: np.random.Generator | None,
    ) -> Tensor:
        """The recommender's loss: one pass over real, drawn and made rows together."""
        p = p | statistics
        rows = torch.cat([batch.item_ND, batch.negative_ND, made_ND])
        real_N, negative_N, made_N = self.scores(p, batch.user_ND, rows, training).chunk(3)
        weights = tuple(name for tower in self._recommender() for name in tower.weights)
        loss = recommender_loss(real_N, made_N, negative_N, self.beta)
        return loss + self.decay * half_squares(p, weights)

    def generator_step(
        self,
        p: Params,
        statistics: Params,
        recommender: Params,
        batch: Batch,
        training: np.random.Generator | None,
    ) -> Tensor:
        """The generator's loss, through a recommender that stands still."""
        tower = self._generator(batch.content_NF.shape[1])
        p = p | statistics
        made_ND = tower(p, batch.content_NF, training)
        rows = torch.cat([batch.item_ND, made_ND])
        real_N, made_N = self.scores(recommender, batch.user_ND, rows, None).chunk(2)
        loss = generator_loss(real_N, made_N, made_ND, batch.item_ND, self.alpha)
        return loss + self.decay * half_squares(p, tower.weights)

    def loss_of(
        self, network: str, batch: Batch, states: States, training: np.random.Generator
    ) -> Callable[[Params], Tensor]:
        making, making_statistics = states[_GENERATOR]
        judging, judging_statistics = states[_RECOMMENDER]
        if network == _GENERATOR:
            return partial(
                self.generator_step,
                statistics=making_statistics,
                recommender=judging | judging_statistics,
                batch=batch,
                training=training,
            )
        with torch.no_grad():
            maker = self._generator(batch.content_NF.shape[1])
            made_ND = maker(making | making_statistics, batch.content_NF, None)
        return partial(
            self.recommender_step,
            statistics=judging_statistics,
            made_ND=made_ND,
            batch=batch,
            training=training,
        )

    def batches(
        self, known: Known, samples: PairSamples, generator: np.random.Generator
    ) -> Iterator[Batch]:
        pairs, content_WF = first_pairs(samples), known.feature_WF
        device = content_WF.device
        for piece in self.pieces(len(pairs[0]), generator):
            user_N, item_N, negative_N = (sent(code_N[piece], device) for code_N in pairs)
            yield Batch(
                known.user_UD[user_N],
                known.item_WD[item_N],
                known.item_WD[negative_N],
                content_WF[item_N],
            )

    def user_vectors(self, p: Params, factors: Params, user_ND: Tensor) -> Tensor:
        return self._recommender()[0](beginning(p, _RECOMMENDER), user_ND, None)

    def item_vectors(self, p: Params, known: Known) -> Tensor:
        maker, tower = self._generator(known.feature_IF.shape[1]), self._recommender()[1]
        made_ID = maker(beginning(p, _GENERATOR), known.feature_IF, None)
        judging = beginning(p, _RECOMMENDER)
        return known.ranked(tower(judging, known.item_WD, None), tower(judging, made_ID, None))


METHODS["gar"] = Entry(
    build=Gar,
    summary="central, for cold items: a generator of factors from content, against a recommender",
    rounds=Gar().factor_epochs + 100,
    protocol="mdifffr",
    presets={"paper": {}, "narrow": {"factors": NARROW}},
    split="cold",
)
