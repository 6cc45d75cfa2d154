"""Scorers: from a client's parameters and item rows to logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tacit.core.parts import Backbone
from tacit.core.registry import register
from tacit.core.types import Initializer, Params
from tacit.data.protocol import added_later
from tacit.errors import TacitError

# FedMF's scorer: the dot product of a private user vector and an item row.


@register("dot")
@dataclass(frozen=True)
class DotProduct(Backbone):
    """logit = e_u · x. `user_scale`, `item_scale`: standard deviations of the first values.

    >>> import torch
    >>> DotProduct(dim=2).score({"user": torch.tensor([1.0, 2.0])}, torch.eye(2)).tolist()
    [1.0, 2.0]
    """

    dim: int = 32
    user_scale: float = 0.1
    item_scale: float = 0.1

    @property
    def linear(self) -> tuple[str, str | None]:
        return "user", None

    def item_init(self) -> Initializer:
        return Initializer((self.dim,), "normal", self.item_scale)

    def private(self) -> dict[str, Initializer]:
        return {"user": Initializer((self.dim,), "normal", self.user_scale)}

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        return x_ND @ p["user"]


# PFedRec's scorer: a private linear layer over the item row, and no user vector.


@register("linear_head")
@dataclass(frozen=True)
class LinearHead(Backbone):
    """logit = w_u · x + b_u. All clients begin with the same head, U(±1/√D), as released.

    With `user_vector` the head sees [e_u; x], as an option of FedRKG's released code: the new half
    is the same for all items, so it only shifts a user's logits.

    >>> import torch
    >>> p = {"head.w": torch.tensor([1.0, 2.0]), "head.b": torch.tensor(0.5)}
    >>> LinearHead(dim=2).score(p, torch.eye(2)).tolist()
    [1.5, 2.5]
    """

    dim: int = 32
    item_scale: float = 1.0
    user_vector: bool = False

    @property
    def linear(self) -> tuple[str, str | None] | None:
        return None if self.user_vector else ("head.w", "head.b")

    def item_init(self) -> Initializer:
        return Initializer((self.dim,), "normal", self.item_scale)

    def private(self) -> dict[str, Initializer]:
        bound = self.dim**-0.5
        parameters = {
            "head.w": Initializer((self.dim,), "uniform", bound, same=True),
            "head.b": Initializer((), "uniform", bound, same=True),
        }
        if self.user_vector:
            parameters["head.v"] = Initializer((self.dim,), "uniform", bound, same=True)
            parameters["user"] = Initializer((self.dim,), "normal", self.item_scale)
        return parameters

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        logit_N = x_ND @ p["head.w"] + p["head.b"]
        return logit_N + p["user"] @ p["head.v"] if self.user_vector else logit_N


# FedNCF's scorer: a shared multi-layer perceptron over [user vector; item row].


def check_layers(layers: tuple[int, ...]) -> None:
    """Refuse a tower that does not end in one logit."""
    if not layers or min(layers) < 1 or layers[-1] != 1:
        raise TacitError(
            f"backbone.layers is {list(layers)}; it must list positive widths and end with 1, the "
            "logit."
        )


def mlp_layers(width: int, layers: tuple[int, ...]) -> dict[str, Initializer]:
    """The parameters of a tower over an input of the given width, at He's uniform initializer."""
    parameters: dict[str, Initializer] = {}
    for number, out in enumerate(layers):
        parameters[f"mlp.w{number}"] = Initializer((width, out), "uniform", (6 / width) ** 0.5)
        parameters[f"mlp.b{number}"] = Initializer((out,), "zeros")
        width = out
    return parameters


def upper_layers(p: Params, hidden_NH: Tensor, depth: int) -> Tensor:
    """From the first layer's output to the logits."""
    for number in range(1, depth):
        hidden_NH = torch.relu(hidden_NH) @ p[f"mlp.w{number}"] + p[f"mlp.b{number}"]
    return hidden_NH.squeeze(-1)


@register("shared_mlp")
@dataclass(frozen=True)
class SharedMlp(Backbone):
    """logit = MLP([e_u; x]); e_u is private, the layers are shared and averaged, or with
    `scorer="private"` kept by each client, which all begin with the same layers.

    `layers` lists the widths after the input (2D); the last is the logit. Layers begin at He's
    uniform initializer: under torch's narrower default the tower's output hardly depends on its
    input, and the few local steps of a round do not get it moving.

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

    def item_init(self) -> Initializer:
        return Initializer((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Initializer]:
        return mlp_layers(2 * self.dim, self.layers) if self.scorer == "shared" else {}

    def private(self) -> dict[str, Initializer]:
        parameters = {"user": Initializer((self.dim,), "normal", self.user_scale)}
        if self.scorer == "private":
            layers = mlp_layers(2 * self.dim, self.layers)
            parameters |= {name: replace(init, same=True) for name, init in layers.items()}
        return parameters

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        # the user's half of the first layer is the same for all rows: multiply it once
        weight = p["mlp.w0"]
        hidden = x_ND @ weight[self.dim :] + (p["user"] @ weight[: self.dim] + p["mlp.b0"])
        return upper_layers(p, hidden, len(self.layers))


# PFedRec's scorer as a perceptron: private layers over the item row, and no user vector.


@register("mlp_head")
@dataclass(frozen=True)
class MlpHead(Backbone):
    """logit = MLP_u(x); 32-16-1 is FedRKG's copy of PFedRec. All clients begin with the same one.

    >>> sorted(MlpHead(dim=4, layers=(2, 1)).private())
    ['mlp.b0', 'mlp.b1', 'mlp.w0', 'mlp.w1']
    """

    dim: int = 32
    layers: tuple[int, ...] = (16, 1)
    item_scale: float = 1.0

    def __post_init__(self) -> None:
        check_layers(self.layers)

    def item_init(self) -> Initializer:
        return Initializer((self.dim,), "normal", self.item_scale)

    def private(self) -> dict[str, Initializer]:
        layers = mlp_layers(self.dim, self.layers)
        return {name: replace(init, same=True) for name, init in layers.items()}

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        return upper_layers(p, x_ND @ p["mlp.w0"] + p["mlp.b0"], len(self.layers))


# FedNCF as the multimodal papers run it: a perceptron branch and a product branch.


@register("neural_mf")
@dataclass(frozen=True)
class NeuralMf(Backbone):
    """logit = v · [tower([p_u; q_i]) ; p'_u * q'_i] + c, tower `layers` with ReLU after each.

    A row holds q_i and q'_i side by side, a user vector p_u and p'_u, so `dim` is twice the width
    of a branch. User vectors are private, tower and output layer are shared, or with
    `scorer="private"` kept by each client, which all begin with the same ones.

    >>> sum(init.count for init in NeuralMf().shared().values())
    10945
    >>> NeuralMf(scorer="private").shared()
    {}
    """

    dim: int = 128
    layers: tuple[int, ...] = (64, 32, 16)
    scale: float = 0.1
    scorer: Literal["shared", "private"] = added_later("shared")

    branches = 2

    def item_init(self) -> Initializer:
        return Initializer((self.dim,), "normal", self.scale)

    def shared(self) -> dict[str, Initializer]:
        return self._tower() if self.scorer == "shared" else {}

    def _tower(self) -> dict[str, Initializer]:
        parameters: dict[str, Initializer] = {}
        size = self.dim
        for number, width in enumerate(self.layers):
            spread = (2 / (size + width)) ** 0.5
            parameters[f"tower.{number}.w"] = Initializer((size, width), "normal", spread)
            parameters[f"tower.{number}.b"] = Initializer((width,))
            size = width
        size += self.dim // 2
        parameters["tower.out.w"] = Initializer((size,), "normal", (2 / (size + 1)) ** 0.5)
        parameters["tower.out.b"] = Initializer(())
        return parameters

    def private(self) -> dict[str, Initializer]:
        parameters = {"user": Initializer((self.dim,), "normal", self.scale)}
        if self.scorer == "private":
            parameters |= {name: replace(init, same=True) for name, init in self._tower().items()}
        return parameters

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        half = self.dim // 2
        user_N = p["user"][:half].expand(x_ND.shape[0], half)
        hidden = torch.cat([user_N, x_ND[:, :half]], dim=1)
        for number in range(len(self.layers)):
            hidden = torch.relu(hidden @ p[f"tower.{number}.w"] + p[f"tower.{number}.b"])
        product = p["user"][half:] * x_ND[:, half:]
        return torch.cat([hidden, product], dim=1) @ p["tower.out.w"] + p["tower.out.b"]
