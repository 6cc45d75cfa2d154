"""The network that guesses a clean row from a noisy one, and its optimizer steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.types import Params
from tacit.errors import TacitError

# Steps of an optimiser on named parameters, whose memory lies among them under "adam.".

_MEMORY = "adam."


def with_memory(optimiser: Optimiser, parameters: Params) -> Params:
    """The parameters, and what the optimiser remembers: of all of them as one long parameter, in
    the order of their names, since dozens of small ones would cost more time than their numbers do.

    >>> from tacit.core.optim import Adam, Sgd
    >>> p = with_memory(Adam(), {"w": torch.zeros(2), "b": torch.zeros(1)})
    >>> sorted(p), len(p["adam.first"])
    (['adam.first', 'adam.second', 'adam.steps', 'b', 'w'], 3)
    >>> sorted(with_memory(Sgd(), {"w": torch.zeros(2)}))
    ['w']
    """
    memory = optimiser.init(_joined(parameters), 0)
    return {**parameters, **{f"{_MEMORY}{slot}": value for slot, value in memory.items()}}


class Descent:
    """Steps one after another, between which the parameters lie in one row. The memory lasts from
    step to step: the server keeps it, whatever lifetime an optimiser has on a client.

    >>> from tacit.core.optim import Sgd
    >>> descent = Descent(Sgd(), {"w": torch.ones(2)})
    >>> for _ in range(2):
    ...     descent.step(lambda p: p["w"].sum(), rate=0.25)
    >>> descent.parameters["w"].tolist()
    [0.5, 0.5]
    """

    def __init__(self, optimiser: Optimiser, p: Params) -> None:
        start = len(_MEMORY)
        parameters = {name: value for name, value in p.items() if not name.startswith(_MEMORY)}
        self._optimiser = optimiser
        self._memory = {name[start:]: value for name, value in p.items() if name not in parameters}
        self._shapes = {name: parameters[name].shape for name in sorted(parameters)}
        self._joined = _joined(parameters)

    @property
    def parameters(self) -> Params:
        """The parameters as they stand, without memory; they share theirs."""
        return self._parted(self._joined)

    @property
    def whole(self) -> Params:
        """Parameters and memory. Each has its own storage: a file takes no two that share it."""
        apart = {name: value.clone() for name, value in self.parameters.items()}
        return apart | {f"{_MEMORY}{slot}": value for slot, value in self._memory.items()}

    def step(self, loss: Callable[[Params], Tensor], rate: float) -> None:
        """One step down the loss."""
        with torch.enable_grad():
            moving = self._joined.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(loss(self._parted(moving)), moving)
        update = self._optimiser.update(self._joined, gradient, self._memory, rate)
        self._joined, self._memory = update

    def _parted(self, joined: Tensor) -> Params:
        parts = joined.split([shape.numel() for shape in self._shapes.values()])
        named = zip(self._shapes.items(), parts, strict=True)
        return {name: part.view(shape) for (name, shape), part in named}


def _joined(parameters: Params) -> Tensor:
    return torch.cat([parameters[name].reshape(-1) for name in sorted(parameters)])


class Guesses(Protocol):
    """What a diffusion asks of a network: a guess of clean rows."""

    @property
    def dropout(self) -> float: ...
    def guess(
        self,
        p: Params,
        noisy_ND: Tensor,
        step_N: Tensor,
        feature_NF: Tensor,
        keep_ND: Tensor | None = None,
    ) -> Tensor: ...


# The network that guesses a clean row from a noisy one, the step and the item's features.
#
# Shape suffixes: N rows, D width of a row, F width of the features, S tokens, H heads.

_TIME_WIDTH = 16
_GAIN = 0.1


@dataclass(frozen=True)
class Denoiser:
    """MDiffFR's network. The noisy row asks, the step and the features answer: it is the query of
    an attention over two tokens, and a narrow tower makes the guess of what the attention read.

    `mode="released"` adds the attention's output to itself, as the released code does, so the
    noisy row reaches the guess through the attention's weights alone; `residual` adds it to the
    noisy row. `fusion="concatenated"` is the ablation without attention; without `guidance` the
    features are not read.

    >>> p = Denoiser(width=64, feature_width=64).init(np.random.default_rng(0))
    >>> sum(parameter.numel() for parameter in p.values())
    34689
    """

    width: int
    feature_width: int
    mode: Literal["released", "residual"] = "released"
    fusion: Literal["attention", "concatenated"] = "attention"
    guidance: bool = True
    heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.width < 1 or self.width % self.heads:
            raise TacitError(
                f"The item rows are {self.width} wide; the denoiser has {self.heads} heads, so "
                f"choose a width that can be divided by {self.heads}."
            )

    def init(self, generator: np.random.Generator) -> Params:
        """The parameters at their first values.

        >>> p = Denoiser(8, 5, guidance=False).init(np.random.default_rng(0))
        >>> "modality.w" in p, p["time.w"].shape
        (False, torch.Size([16, 8]))
        """
        width, half = self.width, self.width // 2
        p = _linear_init("time", _TIME_WIDTH, width, generator)
        if self.guidance:
            p |= _linear_init("modality", self.feature_width, width, generator)
        p |= _norm_init("query", width)
        if self.fusion == "attention":
            p |= _linear_init("token", width, width, generator)
            bound = (
                6 / (4 * width)
            ) ** 0.5  # Xavier's uniform initializer, for all three maps as one
            drawn = generator.uniform(-bound, bound, (width, 3 * width))
            p["attention.in.w"] = torch.from_numpy(drawn.astype(np.float32))
            p["attention.in.b"] = torch.zeros(3 * width)
            p |= _linear_init("attention.out", width, width, generator)
        else:
            p |= _linear_init("joined", (3 if self.guidance else 2) * width, width, generator)
        p["gain"] = torch.tensor(_GAIN)
        p |= _norm_init("norm", width)
        for name, (fan_in, fan_out) in enumerate([(width, half), (half, width)] * 2):
            p |= _linear_init(f"tower{name}", fan_in, fan_out, generator)
        return p

    def guess(
        self,
        p: Params,
        noisy_ND: Tensor,
        step_N: Tensor,
        feature_NF: Tensor,
        keep_ND: Tensor | None = None,
    ) -> Tensor:
        """The clean rows (N, D); steps count from 0, and `keep_ND` is training's dropout mask.

        >>> denoiser = Denoiser(width=8, feature_width=3)
        >>> p = denoiser.init(np.random.default_rng(0))
        >>> denoiser.guess(p, torch.zeros(5, 8), torch.zeros(5), torch.zeros(5, 3)).shape
        torch.Size([5, 8])
        """
        noisy_ND = _normed(p, "query", noisy_ND)
        if keep_ND is not None:
            noisy_ND = noisy_ND * keep_ND
        known = [torch.tanh(_linear(p, "time", waves(step_N, noisy_ND.dtype, _TIME_WIDTH)))]
        if self.guidance:
            known.append(torch.tanh(_linear(p, "modality", feature_NF)))
        if self.fusion == "attention":
            token_NSD = torch.tanh(_linear(p, "token", torch.stack(known, dim=1)))
            read_ND = self._attended(p, noisy_ND, token_NSD)
        else:
            read_ND = _linear(p, "joined", torch.cat([*known, noisy_ND], dim=1))
        kept_ND = read_ND if self.mode == "released" else noisy_ND
        value = _normed(p, "norm", kept_ND + p["gain"] * read_ND)
        for number in range(3):
            value = torch.tanh(_linear(p, f"tower{number}", value))
        return _linear(p, "tower3", value)

    def _attended(self, p: Params, query_ND: Tensor, token_NSD: Tensor) -> Tensor:
        width = self.width
        weight, bias = p["attention.in.w"], p["attention.in.b"]
        query = query_ND @ weight[:, :width] + bias[:width]
        both = token_NSD @ weight[:, width:] + bias[width:]
        by_head = (-1, self.heads, width // self.heads)
        query_N1Hd = query.reshape(by_head).unsqueeze(1)
        tokens = token_NSD.shape[1]
        key_NSHd = both[..., :width].reshape(-1, tokens, *by_head[1:])
        value_NSHd = both[..., width:].reshape(-1, tokens, *by_head[1:])
        likeness_NSH = (query_N1Hd * key_NSHd).sum(-1) / by_head[2] ** 0.5
        look_NSH = torch.softmax(likeness_NSH, dim=1)
        read_NHd = (look_NSH.unsqueeze(-1) * value_NSHd).sum(dim=1)
        return _linear(p, "attention.out", read_NHd.reshape(-1, width))


def _linear(p: Params, name: str, value: Tensor) -> Tensor:
    return value @ p[f"{name}.w"] + p[f"{name}.b"]


def _normed(p: Params, name: str, value_ND: Tensor) -> Tensor:
    shape = value_ND.shape[-1:]
    return torch.nn.functional.layer_norm(value_ND, shape, p[f"{name}.scale"], p[f"{name}.shift"])


def waves(step_N: Tensor, dtype: torch.dtype, width: int) -> Tensor:
    """A step as cosines, then sines, from fast to slow.

    >>> waves(torch.zeros(1), torch.float32, 4).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """
    half = width // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=dtype, device=step_N.device) / half)
    angle = step_N.to(dtype)[:, None] * frequency
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)


def _linear_init(name: str, fan_in: int, fan_out: int, generator: np.random.Generator) -> Params:
    """Xavier's normal initializer, and no bias."""
    drawn = generator.normal(scale=(2 / (fan_in + fan_out)) ** 0.5, size=(fan_in, fan_out))
    weight = torch.from_numpy(drawn.astype(np.float32))
    return {f"{name}.w": weight, f"{name}.b": torch.zeros(fan_out)}


def _norm_init(name: str, width: int) -> Params:
    return {f"{name}.scale": torch.ones(width), f"{name}.shift": torch.zeros(width)}
