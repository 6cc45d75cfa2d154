"""Operators that make one view of an item from its projected inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tacit.core.types import Init, Params

# What a view is.


def xavier(*shape: int) -> Init:
    """A matrix at the scale that keeps variances in both directions (Glorot, normal).

    >>> xavier(2, 6).scale
    0.5
    """
    return Init(shape, "normal", (2 / (shape[0] + shape[1])) ** 0.5)


@runtime_checkable
class View(Protocol):
    """One operator F_j: from the inputs of an item (id, text, image, …), each (N, D), to (N, D).

    It works item by item, so that the server can make a view of the whole catalogue.
    """

    @property
    def name(self) -> str:
        """Its leaves are called view.NAME.…"""
        ...

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]: ...
    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor: ...


# One input, as it is.


@dataclass(frozen=True)
class SingleView:
    """The projected input `modality` alone: the router's weight is then the weight of a modality.

    >>> SingleView("text").name
    'single_text'
    """

    modality: str = "id"

    @property
    def name(self) -> str:
        return f"single_{self.modality}"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        return {}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        return x[self.modality]


# The sum of all inputs.


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


# Attention among the inputs of one item.


@dataclass(frozen=True)
class AttentionView:
    """The inputs of an item attend to one another, one head; the mean of what they read.

    It looks at one item at a time; the released code attends across the items of a batch.

    >>> p = {f"{kind}.w": torch.eye(2) for kind in ("query", "key", "value")}
    >>> AttentionView().view(p, {"id": torch.ones(1, 2), "text": torch.ones(1, 2)}).tolist()
    [[1.0, 1.0]]
    """

    @property
    def name(self) -> str:
        return "attention"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        return {f"{kind}.w": xavier(width, width) for kind in ("query", "key", "value")}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        token_NMD = torch.stack(tuple(x.values()), dim=-2)
        query, key, value = (token_NMD @ p[f"{kind}.w"] for kind in ("query", "key", "value"))
        look = torch.softmax(query @ key.transpose(-1, -2) / token_NMD.shape[-1] ** 0.5, dim=-1)
        return (look @ value).mean(-2)


# Gates as features.


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


# Gates that multiply what they gate.


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


# A perceptron over all inputs side by side.


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
