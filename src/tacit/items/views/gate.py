"""Gates as features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.types import Init, Params
from tacit.items.views.view import xavier


@dataclass(frozen=True)
class GateView:
    """W [σ(W_m x_m + b_m) for each input m] + b: the papers' gate.

    The gates do not multiply anything, they are the features; `TrueGateView` multiplies.

    >>> sum(init.count for init in GateView().shared(64, ("id", "text", "image")).values())
    24832
    """

    @property
    def name(self) -> str:
        return "gate"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        leaves = {"out.w": xavier(len(inputs) * width, width), "out.b": Init((width,))}
        for name in inputs:
            leaves |= {f"{name}.w": xavier(width, width), f"{name}.b": Init((width,))}
        return leaves

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        gates = [torch.sigmoid(x[name] @ p[f"{name}.w"] + p[f"{name}.b"]) for name in x]
        return torch.cat(gates, dim=-1) @ p["out.w"] + p["out.b"]
