"""Operators that make one view of an item from its projected inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Part

# What a view is.


def xavier(*shape: int) -> Initializer:
    """A matrix at the scale that keeps variances in both directions (Glorot, normal).

    >>> xavier(2, 6).scale
    0.5
    """
    return Initializer(shape, "normal", (2 / (shape[0] + shape[1])) ** 0.5)


class View(Part):
    """One operator F_j: from the inputs of an item (id, text, image, …), each (N, D), to (N, D).

    It works item by item, so that the server can make a view of the whole catalogue.
    """

    @property
    def name(self) -> str:
        """Its parameters are called view.NAME.…"""
        raise NotImplementedError

    @property
    def reads(self) -> str | None:
        """The one input that it looks at; None where it looks at all of them."""
        return None

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Initializer]:
        return {}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        raise NotImplementedError


# One input, as it is.


@register("single_view")
@dataclass(frozen=True)
class SingleView(View):
    """The projected input `modality` alone: the router's weight is then the weight of a modality.

    >>> SingleView("text").name
    'single_text'
    """

    modality: str = "id"

    @property
    def name(self) -> str:
        return f"single_{self.modality}"

    @property
    def reads(self) -> str:
        return self.modality

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        return x[self.modality]


# The sum of all inputs.


@register("sum_view")
@dataclass(frozen=True)
class SumView(View):
    """id + text + image: no parameters.

    >>> one = torch.ones(1, 2)
    >>> SumView().view({}, {"id": one, "text": one}).tolist()
    [[2.0, 2.0]]
    """

    name = "sum"

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        return torch.stack(tuple(x.values())).sum(0)


# Attention among the inputs of one item.


@register("attention_view")
@dataclass(frozen=True)
class AttentionView(View):
    """The inputs of an item attend to one another, one head; the mean of what they read.

    It looks at one item at a time; the released code attends across the items of a batch.

    >>> p = {f"{kind}.w": torch.eye(2) for kind in ("query", "key", "value")}
    >>> AttentionView().view(p, {"id": torch.ones(1, 2), "text": torch.ones(1, 2)}).tolist()
    [[1.0, 1.0]]
    """

    name = "attention"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Initializer]:
        return {f"{kind}.w": xavier(width, width) for kind in ("query", "key", "value")}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        token_NMD = torch.stack(tuple(x.values()), dim=-2)
        query, key, value = (token_NMD @ p[f"{kind}.w"] for kind in ("query", "key", "value"))
        look = torch.softmax(query @ key.transpose(-1, -2) / token_NMD.shape[-1] ** 0.5, dim=-1)
        return (look @ value).mean(-2)


# Gates as features.


@register("gate_view")
@dataclass(frozen=True)
class GateView(View):
    """W [σ(W_m x_m + b_m) for each input m] + b: the papers' gate.

    The gates do not multiply anything, they are the features; `TrueGateView` multiplies.

    >>> sum(init.count for init in GateView().shared(64, ("id", "text", "image")).values())
    24832
    """

    name = "gate"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Initializer]:
        parameters = {"out.w": xavier(len(inputs) * width, width), "out.b": Initializer((width,))}
        for name in inputs:
            parameters |= {f"{name}.w": xavier(width, width), f"{name}.b": Initializer((width,))}
        return parameters

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        gates = [torch.sigmoid(x[name] @ p[f"{name}.w"] + p[f"{name}.b"]) for name in x]
        return torch.cat(gates, dim=-1) @ p["out.w"] + p["out.b"]


# Gates that multiply what they gate.


@register("true_gate_view")
@dataclass(frozen=True)
class TrueGateView(View):
    """Σ_m σ(W_m x_m + b_m) * x_m: what the name says. Ours, not the papers'.

    >>> p = {"id.w": torch.zeros(2, 2), "id.b": torch.zeros(2)}
    >>> TrueGateView().view(p, {"id": torch.ones(1, 2)}).tolist()  # σ(0) = ½
    [[0.5, 0.5]]
    """

    name = "true_gate"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Initializer]:
        parameters: dict[str, Initializer] = {}
        for name in inputs:
            parameters |= {f"{name}.w": xavier(width, width), f"{name}.b": Initializer((width,))}
        return parameters

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        gated = [torch.sigmoid(x[n] @ p[f"{n}.w"] + p[f"{n}.b"]) * x[n] for n in x]
        return torch.stack(gated).sum(0)


# A perceptron over all inputs side by side.


@register("perceptron_view")
@dataclass(frozen=True)
class PerceptronView(View):
    """W₂ relu(W₁ [id; text; image] + b₁) + b₂, `hidden` wide: the papers' MLP operator.

    >>> sum(init.count for init in PerceptronView().shared(64, ("id", "text", "image")).values())
    32960
    """

    hidden: int = 128

    name = "perceptron"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Initializer]:
        return {
            "in.w": xavier(len(inputs) * width, self.hidden),
            "in.b": Initializer((self.hidden,)),
            "out.w": xavier(self.hidden, width),
            "out.b": Initializer((width,)),
        }

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        hidden = torch.cat(tuple(x.values()), dim=-1) @ p["in.w"] + p["in.b"]
        return torch.relu(hidden) @ p["out.w"] + p["out.b"]
