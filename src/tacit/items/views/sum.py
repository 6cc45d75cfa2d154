"""The sum of all inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.types import Init, Params


@dataclass(frozen=True)
class SumView:
    """id + text + image: no parameters.

    >>> one = torch.ones(1, 2)
    >>> SumView().view({}, {"id": one, "text": one}).tolist()
    [[2.0, 2.0]]
    """

    @property
    def name(self) -> str:
        return "sum"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        return {}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        return torch.stack(tuple(x.values())).sum(0)
