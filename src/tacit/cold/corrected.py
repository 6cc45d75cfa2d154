"""A simple map speaks first, and a diffusion learns what it leaves over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tacit.cold.diffusion import Diffusion
from tacit.cold.features import Features
from tacit.cold.ridge import Ridge
from tacit.core.cold import ColdStart
from tacit.core.types import Params
from tacit.errors import TacitError

_MAP, _REST = "map.", "rest."


@dataclass(frozen=True)
class Corrected:
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
    def features(self) -> Features:
        return self.first.features

    @property
    def noise(self) -> int:
        return self.diffusion.noise

    @property
    def lasts(self) -> bool:
        return True

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
    return {f"{prefix}{name}": leaf for name, leaf in p.items()}


def _of(prefix: str, p: Params) -> Params:
    return {n.removeprefix(prefix): leaf for n, leaf in p.items() if n.startswith(prefix)}
