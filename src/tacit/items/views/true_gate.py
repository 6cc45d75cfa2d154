"""Gates that multiply what they gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.types import Init, Params
from tacit.items.views.view import xavier


@dataclass(frozen=True)
class TrueGateView:
    """Σ_m σ(W_m x_m + b_m) * x_m: what the name says. Ours, not the papers'.

    >>> p = {"id.w": torch.zeros(2, 2), "id.b": torch.zeros(2)}
    >>> TrueGateView().view(p, {"id": torch.ones(1, 2)}).tolist()  # σ(0) = ½
    [[0.5, 0.5]]
    """

    @property
    def name(self) -> str:
        return "true_gate"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        leaves: dict[str, Init] = {}
        for name in inputs:
            leaves |= {f"{name}.w": xavier(width, width), f"{name}.b": Init((width,))}
        return leaves

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        gated = [torch.sigmoid(x[n] @ p[f"{n}.w"] + p[f"{n}.b"]) * x[n] for n in x]
        return torch.stack(gated).sum(0)
