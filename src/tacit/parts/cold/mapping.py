"""IFedRec's generator: a map from content to rows, which follows the table round by round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.core.optim import Adam, Optimiser
from tacit.core.parts import ColdStart
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.parts.cold.features import Features, like
from tacit.parts.diffusion.denoiser import Descent, with_memory


@register("mapping")
@dataclass(frozen=True)
class Mapping(ColdStart):
    """row = tanh(features W + b), moved a few full-batch steps a round towards the warm table.

    A tanh bounds rows to ±1, as released, although the table has no such bound; `bounded=False`
    leaves it off. `hidden` puts a tanh layer of that width in between. Layers begin at torch's
    initializer of a linear layer, and Adam's moments last over rounds.

    >>> mapping = Mapping()
    >>> p = mapping.begin(2, 3, np.random.default_rng(0))
    >>> mapping.generate(p, torch.zeros(4, 3), torch.zeros(4, 0, 2)).shape
    torch.Size([4, 2])
    """

    features: Features = Features(reduce=False)
    optimiser: Optimiser = Adam(5e-3)
    steps: int = 1
    hidden: int = 0
    bounded: bool = True

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise TacitError(f"cold.steps is {self.steps}; it must be at least 1.")
        if self.hidden < 0:
            raise TacitError(f"cold.hidden is {self.hidden}; it must be a width, or 0 for none.")

    lasts = True

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        parameters: Params = {}
        if self.hidden:
            parameters = _layer("hidden", feature_width, self.hidden, generator)
        parameters |= _layer("out", self.hidden or feature_width, width, generator)
        return with_memory(self.optimiser, parameters)

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        def loss(parameters: Params) -> Tensor:
            return (self._rows(parameters, feature_WF) - table_WD).square().mean()

        rate = self.optimiser.rate_at(round_number, len(table_WD))
        descent = Descent(self.optimiser, like(p, table_WD))
        for _ in range(self.steps):
            descent.step(loss, rate)
        return descent.whole

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        return self._rows(like(p, feature_CF), feature_CF)

    def _rows(self, p: Params, feature_NF: Tensor) -> Tensor:
        value = feature_NF
        if self.hidden:
            value = torch.tanh(value @ p["hidden.w"] + p["hidden.b"])
        row_ND = value @ p["out.w"] + p["out.b"]
        return torch.tanh(row_ND) if self.bounded else row_ND


def _layer(name: str, fan_in: int, fan_out: int, generator: np.random.Generator) -> Params:
    bound = max(fan_in, 1) ** -0.5
    weight = generator.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32)
    bias = generator.uniform(-bound, bound, fan_out).astype(np.float32)
    return {f"{name}.w": torch.from_numpy(weight), f"{name}.b": torch.from_numpy(bias)}
