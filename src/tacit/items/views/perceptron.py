"""A perceptron over all inputs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.types import Init, Params
from tacit.items.views.view import xavier


@dataclass(frozen=True)
class PerceptronView:
    """W₂ relu(W₁ [id; text; image] + b₁) + b₂, `hidden` wide: the papers' MLP operator.

    >>> sum(init.count for init in PerceptronView().shared(64, ("id", "text", "image")).values())
    32960
    """

    hidden: int = 128

    @property
    def name(self) -> str:
        return "perceptron"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        return {
            "in.w": xavier(len(inputs) * width, self.hidden),
            "in.b": Init((self.hidden,)),
            "out.w": xavier(self.hidden, width),
            "out.b": Init((width,)),
        }

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        hidden = torch.cat(tuple(x.values()), dim=-1) @ p["in.w"] + p["in.b"]
        return torch.relu(hidden) @ p["out.w"] + p["out.b"]
