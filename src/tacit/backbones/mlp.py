"""FedNCF's scorer: a shared multi-layer perceptron over [user vector; item row]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tacit.core.types import Init, Params
from tacit.errors import TacitError


def check_layers(layers: tuple[int, ...]) -> None:
    """Refuse a tower that does not end in one logit."""
    if not layers or min(layers) < 1 or layers[-1] != 1:
        raise TacitError(
            f"backbone.layers is {list(layers)}; it must list positive widths and end with 1, the "
            "logit."
        )


def mlp_layers(width: int, layers: tuple[int, ...]) -> dict[str, Init]:
    """The leaves of a tower over an input of the given width, at He's uniform law."""
    leaves: dict[str, Init] = {}
    for number, out in enumerate(layers):
        leaves[f"mlp.w{number}"] = Init((width, out), "uniform", (6 / width) ** 0.5)
        leaves[f"mlp.b{number}"] = Init((out,), "zeros")
        width = out
    return leaves


def upper_layers(p: Params, hidden_NH: Tensor, depth: int) -> Tensor:
    """From the first layer's output to the logits."""
    for number in range(1, depth):
        hidden_NH = torch.relu(hidden_NH) @ p[f"mlp.w{number}"] + p[f"mlp.b{number}"]
    return hidden_NH.squeeze(-1)


@dataclass(frozen=True)
class SharedMlp:
    """logit = MLP([e_u; x]); e_u is private, the layers are shared and averaged, or with
    `scorer="private"` kept by each client, which all begin with the same layers.

    `layers` lists the widths after the input (2D); the last is the logit. Layers begin at He's
    uniform law: under torch's narrower default the tower's output hardly depends on its input, and
    the few local steps of a round do not get it moving.

    >>> sorted(SharedMlp(dim=4, layers=(2, 1)).shared())
    ['mlp.b0', 'mlp.b1', 'mlp.w0', 'mlp.w1']
    >>> SharedMlp(dim=4, layers=(2, 1), scorer="private").shared()
    {}
    """

    dim: int = 32
    layers: tuple[int, ...] = (32, 16, 8, 1)
    user_scale: float = 0.1
    item_scale: float = 0.1
    scorer: Literal["shared", "private"] = "shared"

    def __post_init__(self) -> None:
        check_layers(self.layers)

    @property
    def linear(self) -> None:
        return None

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Init]:
        return mlp_layers(2 * self.dim, self.layers) if self.scorer == "shared" else {}

    def private(self) -> dict[str, Init]:
        leaves = {"user": Init((self.dim,), "normal", self.user_scale)}
        if self.scorer == "private":
            layers = mlp_layers(2 * self.dim, self.layers)
            leaves |= {name: replace(init, same=True) for name, init in layers.items()}
        return leaves

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        # the user's half of the first layer is the same for all rows: multiply it once
        weight = p["mlp.w0"]
        hidden = x_ND @ weight[self.dim :] + (p["user"] @ weight[: self.dim] + p["mlp.b0"])
        return upper_layers(p, hidden, len(self.layers))
