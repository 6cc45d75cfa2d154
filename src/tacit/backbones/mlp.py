"""FedNCF's scorer: a shared multi-layer perceptron over [user vector; item row]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.types import Init, Params
from tacit.errors import TacitError


@dataclass(frozen=True)
class SharedMlp:
    """logit = MLP([e_u; x]); e_u is private, the layers are shared and averaged.

    `layers` lists the widths after the input (2D); the last is the logit. Layers begin at He's
    uniform law: under torch's narrower default the tower's output hardly depends on its input, and
    the few local steps of a round do not get it moving.

    >>> sorted(SharedMlp(dim=4, layers=(2, 1)).shared())
    ['mlp.b0', 'mlp.b1', 'mlp.w0', 'mlp.w1']
    """

    dim: int = 32
    layers: tuple[int, ...] = (32, 16, 8, 1)
    user_scale: float = 0.1
    item_scale: float = 0.1

    def __post_init__(self) -> None:
        if not self.layers or min(self.layers) < 1 or self.layers[-1] != 1:
            raise TacitError(
                f"backbone.layers is {list(self.layers)}; it must list positive widths and end "
                "with 1, the logit."
            )

    @property
    def linear(self) -> None:
        return None

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Init]:
        leaves: dict[str, Init] = {}
        width = 2 * self.dim
        for number, out in enumerate(self.layers):
            leaves[f"mlp.w{number}"] = Init((width, out), "uniform", (6 / width) ** 0.5)
            leaves[f"mlp.b{number}"] = Init((out,), "zeros")
            width = out
        return leaves

    def private(self) -> dict[str, Init]:
        return {"user": Init((self.dim,), "normal", self.user_scale)}

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        # the user's half of the first layer is the same for all rows: multiply it once
        weight = p["mlp.w0"]
        hidden = x_ND @ weight[self.dim :] + (p["user"] @ weight[: self.dim] + p["mlp.b0"])
        for number in range(1, len(self.layers)):
            hidden = torch.relu(hidden) @ p[f"mlp.w{number}"] + p[f"mlp.b{number}"]
        return hidden.squeeze(-1)
