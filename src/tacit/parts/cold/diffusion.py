"""MDiffFR's generator: a diffusion over the rows of the warm table, guided by content; and its
correction of a map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.core.optim import Optimiser, Sgd
from tacit.core.parts import ColdStart, ContentRows
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.parts.cold.features import Features, like
from tacit.parts.cold.simple import Ridge
from tacit.parts.diffusion.denoiser import Denoiser, with_memory
from tacit.parts.diffusion.process import Schedule, drawn_rows, noise_rows, trained

# MDiffFR's generator: a diffusion over the rows of the warm table, guided by content.

_MIDDLE, _SIZE = "table.mean", "table.deviation"


@register("diffusion")
@dataclass(frozen=True)
class Diffusion(ColdStart):
    """Learns in every round to clean noisy rows of the warm table; a cold item's row is what it
    makes of pure noise beside the item's features. The defaults are the released ones.

    `loss="weighted"` weighs a step by the signal that it costs (up to 95,673 times another),
    `unweighted` is the paper's. `every=2` is the light variant, which learns in every other round.
    A row is the mean over `draws`. With `standardise` it learns and draws where the warm table has
    mean 0 and its entries variance 1, and takes the rows back from there.

    >>> Diffusion().noise, Diffusion(reverse_noise=True, draws=3).noise
    (1, 30)
    """

    features: Features = Features()
    schedule: Schedule = Schedule()
    mode: Literal["released", "residual"] = "released"
    fusion: Literal["attention", "concatenated"] = "attention"
    guidance: bool = True
    loss: Literal["weighted", "unweighted"] = "weighted"
    optimiser: Optimiser = Sgd(1e-4, weight_decay=1e-3)
    epochs: int = 1
    batch: int = 256
    every: int = 1
    start: Literal["gaussian", "matched"] = "gaussian"
    reverse_noise: bool = False
    draws: int = 1
    standardise: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "every", "draws"):
            value = getattr(self, name)
            if value < 1:
                raise TacitError(f"cold.{name} is {value}; it must be at least 1.")

    @property
    def noise(self) -> int:
        return self.draws * noise_rows(self.schedule, self.reverse_noise)

    lasts = True

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        parameters = self._denoiser(width, feature_width).init(generator)
        p = with_memory(self.optimiser, parameters)
        if self.standardise:
            p |= {_MIDDLE: torch.zeros(width), _SIZE: torch.ones(())}
        return p

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        if (round_number - 1) % self.every:
            return p
        distribution: Params = {}
        if self.standardise:
            distribution = _distribution_of(table_WD)
            table_WD = (table_WD - distribution[_MIDDLE]) / distribution[_SIZE]
        denoiser = self._denoiser(table_WD.shape[1], feature_WF.shape[1])
        rate = self.optimiser.rate_at(round_number, len(table_WD))
        learnt = {n: name for n, name in like(p, table_WD).items() if n not in distribution}
        for _ in range(self.epochs):
            learnt = trained(
                denoiser,
                self.schedule,
                self.optimiser,
                learnt,
                table_WD,
                feature_WF,
                rate=rate,
                weighted=self.loss == "weighted",
                batch=self.batch,
                generator=generator,
            )
        return {**learnt, **distribution}

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        p = like(p, feature_CF)
        denoiser = self._denoiser(noise_CND.shape[2], feature_CF.shape[1])
        row_CD = torch.zeros_like(noise_CND[:, 0])
        for noise_CnD in noise_CND.split(noise_rows(self.schedule, self.reverse_noise), dim=1):
            row_CD += drawn_rows(
                denoiser,
                self.schedule,
                p,
                feature_CF,
                noise_CnD,
                start=self.start,
                reverse_noise=self.reverse_noise,
            )
        row_CD /= self.draws
        return row_CD * p[_SIZE] + p[_MIDDLE] if self.standardise else row_CD

    def _denoiser(self, width: int, feature_width: int) -> Denoiser:
        return Denoiser(width, feature_width, self.mode, self.fusion, self.guidance)


def _distribution_of(table_WD: Tensor) -> Params:
    """The mean row, and the standard deviation of an entry around it (1 where nothing varies)."""
    middle_D = table_WD.mean(dim=0)
    size = (table_WD - middle_D).square().mean().sqrt()
    return {_MIDDLE: middle_D, _SIZE: torch.where(size > 0, size, torch.ones_like(size))}


# A simple map speaks first, and a diffusion learns what it leaves over.

_MAP, _REST = "map.", "rest."


@register("corrected")
@dataclass(frozen=True)
class Corrected(ColdStart):
    """row = first(features) + share · diffusion(features, noise); `first` is a simple map without
    noise of its own: a ridge, the nearest items.

    The diffusion learns the warm table minus what the map makes of its features. Where content says
    nothing beyond the map, what is left is noise around zero, and a small share does no harm; where
    it does, the diffusion can find it. A share of 0 is the map alone. Both read its features.

    >>> Corrected(share=0.0).noise
    1
    """

    first: ColdStart = Ridge(Features(reduce=False))
    diffusion: Diffusion = Diffusion(Features(reduce=False), standardise=True)
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.first.noise:
            raise TacitError("cold.first draws noise of its own; use a ridge or the nearest items.")
        if not 0 <= self.share <= 1:
            raise TacitError(f"cold.share is {self.share}; it must lie between 0 and 1.")

    @property
    def features(self) -> ContentRows:
        return self.first.features

    @property
    def noise(self) -> int:
        return self.diffusion.noise

    lasts = True

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        first = self.first.begin(width, feature_width, generator)
        second = self.diffusion.begin(width, feature_width, generator)
        # its last layer begins at zero: until it has learnt something, the map stands alone
        second = {n: x * 0 if n.startswith("tower3.") else x for n, x in second.items()}
        return _named(_MAP, first) | _named(_REST, second)

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        linear = self.first.fit(_of(_MAP, p), table_WD, feature_WF, round_number, generator)
        left_WD = table_WD - self.first.generate(linear, feature_WF, table_WD[:, None])
        rest = self.diffusion.fit(_of(_REST, p), left_WD, feature_WF, round_number, generator)
        return _named(_MAP, linear) | _named(_REST, rest)

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        linear_CD = self.first.generate(_of(_MAP, p), feature_CF, noise_CND)
        rest_CD = self.diffusion.generate(_of(_REST, p), feature_CF, noise_CND)
        return linear_CD + self.share * rest_CD


def _named(prefix: str, p: Params) -> Params:
    return {f"{prefix}{name}": parameter for name, parameter in p.items()}


def _of(prefix: str, p: Params) -> Params:
    return {n.removeprefix(prefix): name for n, name in p.items() if n.startswith(prefix)}
