"""GAR (Chen et al., "Generative Adversarial Framework for Cold-Start Item Recommendation", SIGIR
2022): a generator of item factors from content, against a recommender that tells them apart.

The generator G makes a row of an item's content. The recommender D scores a user's factors with an
item's row: two towers and a product. On every batch of (user, positive i, negative j) both descend,
one after the other. With d the score that D gives, and the row of the positive real or made:

    D:  softplus(−(d(real i) − (1 − β) d(made i) − β d(j)))
    G:  (1 − α) softplus(−(d(made i) − d(real i))) + α mean|G(c) − z|

So D puts real rows above made ones and above negatives, and G tries to be ranked as real rows are.
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

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tacit.central.networks import Losses, Perceptron, apart, half_squares
from tacit.central.pairs import PairSamples
from tacit.core.optim import Adam, Optimiser
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.methods.content_references import NARROW, ContentReference, Known, first_pairs
from tacit.methods.entry import METHODS, Entry
from tacit.parts.diffusion.denoiser import descended, with_memory

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
class Batch:
    """N pairs: factors of users, positives and negatives, and the content of positives."""

    user_ND: Tensor
    item_ND: Tensor
    negative_ND: Tensor
    content_NF: Tensor


@register("gar")
@dataclass(frozen=True)
class Gar(ContentReference):
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
        if self.hidden < 1:
            raise TacitError(f"hidden is {self.hidden}; it must be at least 1.")
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

    def begin(self, feature_width: int, seed: int, dtype: torch.dtype) -> Params:
        found: Params = {}
        halves = {_GENERATOR: (self._generator(feature_width),), _RECOMMENDER: self._recommender()}
        for prefix, towers in halves.items():
            moving: Params = {}
            statistics: Params = {}
            for tower in towers:
                moving |= tower.parameters(seed, dtype)
                statistics |= tower.statistics(dtype)
            half = with_memory(self.optimiser, moving) | statistics
            found |= {f"{prefix}{name}": value for name, value in half.items()}
        return found

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

    def learnt(
        self,
        p: Params,
        known: Known,
        samples: PairSamples,
        number: int,
        generator: np.random.Generator,
    ) -> tuple[Params, float]:
        user_N, item_N, negative_N = map(torch.from_numpy, first_pairs(samples))
        content_WF = known.feature_WF
        maker = self._generator(content_WF.shape[1])
        making, making_statistics = apart(_half(p, _GENERATOR), [maker])
        judging, judging_statistics = apart(_half(p, _RECOMMENDER), self._recommender())
        rate, losses = self.optimiser.rate_at(number, len(content_WF)), Losses()
        for piece in map(torch.from_numpy, self.batches(len(user_N), generator)):
            batch = Batch(
                known.user_UD[user_N[piece]],
                known.item_WD[item_N[piece]],
                known.item_WD[negative_N[piece]],
                content_WF[item_N[piece]],
            )
            with torch.no_grad():
                made_ND = maker(making | making_statistics, batch.content_NF, None)
            judge = partial(
                self.recommender_step,
                statistics=judging_statistics,
                made_ND=made_ND,
                batch=batch,
                training=generator,
            )
            judging = descended(self.optimiser, judging, judge, rate)
            make = partial(
                self.generator_step,
                statistics=making_statistics,
                recommender=judging | judging_statistics,
                batch=batch,
                training=generator,
            )
            making = descended(self.optimiser, making, losses.told(make, len(piece)), rate)
        after = {_GENERATOR: making | making_statistics, _RECOMMENDER: judging | judging_statistics}
        named = {f"{half}{name}": value for half, q in after.items() for name, value in q.items()}
        return named, losses.mean

    def user_vectors(self, p: Params, factors: Params, user_ND: Tensor) -> Tensor:
        return self._recommender()[0](_half(p, _RECOMMENDER), user_ND, None)

    def item_vectors(self, p: Params, known: Known) -> Tensor:
        maker, tower = self._generator(known.feature_IF.shape[1]), self._recommender()[1]
        made_ID = maker(_half(p, _GENERATOR), known.feature_IF, None)
        judging = _half(p, _RECOMMENDER)
        return known.ranked(tower(judging, known.item_WD, None), tower(judging, made_ID, None))


def _half(p: Params, prefix: str) -> Params:
    return {
        name.removeprefix(prefix): value for name, value in p.items() if name.startswith(prefix)
    }


METHODS["gar"] = Entry(
    build=Gar,
    summary="central, for cold items: a generator of factors from content, against a recommender",
    rounds=Gar().factor_epochs + 100,
    protocol="mdifffr",
    presets={"paper": {}, "narrow": {"factors": NARROW}},
    split="cold",
)
