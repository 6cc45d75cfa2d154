"""Layers, dropout and perceptrons with batch norms, as functions over named tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import batch_norm

from tacit.central.training import drawn
from tacit.core.types import Initializer, Params

_EPSILON = 1e-3  # of a batch norm, as in the released code of this family


# How matrices begin.


def glorot(rows: int, columns: int) -> Initializer:
    """A matrix that begins with Glorot's uniform initializer.

    >>> glorot(2, 4).scale
    1.0
    """
    return Initializer((rows, columns), "uniform", (6 / (rows + columns)) ** 0.5)


def row_of(table: Initializer) -> Initializer:
    """One row of a table, as it would begin in the whole.

    >>> row_of(glorot(2, 4)).shape, row_of(glorot(2, 4)).scale
    ((4,), 1.0)
    """
    return replace(table, shape=table.shape[1:])


def layer(name: str, inputs: int, outputs: int) -> dict[str, Initializer]:
    """Weights and biases of a linear layer, uniform within the root of one over its inputs.

    >>> [init.scale for init in layer("gate", 4, 2).values()]
    [0.5, 0.5]
    """
    within = (1 / inputs) ** 0.5
    return {
        f"{name}.w": Initializer((inputs, outputs), "uniform", within),
        f"{name}.b": Initializer((outputs,), "uniform", within),
    }


def linear(name: str, width: int, out: int, scale: float | None) -> dict[str, Initializer]:
    """A weight and a bias at zero. The weight is normal with a deviation, or has Glorot's uniform
    initializer where none is given.

    >>> linear("a", 2, 4, None)["a.w"].scale
    1.0
    """
    weight = glorot(width, out)
    if scale is not None:
        weight = Initializer((width, out), "normal", scale)
    return {f"{name}.w": weight, f"{name}.b": Initializer((out,))}


# What they do.


def through(p: Params, name: str, value: Tensor) -> Tensor:
    """A value after a linear layer.

    >>> p = {"gate.w": torch.eye(1), "gate.b": torch.ones(1)}
    >>> through(p, "gate", torch.tensor([[2.0]])).item()
    3.0
    """
    return value @ p[f"{name}.w"] + p[f"{name}.b"]


def dropped(value: Tensor, rate: float, generator: np.random.Generator) -> Tensor:
    """Entries are left out at a rate, and what stays is scaled so that its mean is kept.

    >>> sorted(dropped(torch.ones(1, 50), 0.5, np.random.default_rng(0)).unique().tolist())
    [0.0, 2.0]
    """
    if rate == 0:
        return value
    kept = sent(generator.random(value.shape, dtype=np.float32) >= rate, value.device)
    return value * kept.to(value.dtype) / (1 - rate)


def sent(value: np.ndarray, device: torch.device) -> Tensor:
    """An array as a tensor on a device; nobody waits for a GPU until it is there.

    >>> sent(np.arange(2), torch.device("cpu")).tolist()
    [0, 1]
    """
    tensor = torch.from_numpy(value)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def half_squares(p: Params, names: tuple[str, ...]) -> Tensor:
    """Half the sum of squares of some parameters.

    >>> half_squares({"a": torch.tensor([2.0, 0.0]), "b": torch.ones(1)}, ("a",)).item()
    2.0
    """
    return torch.cat([p[name].flatten() for name in names]).square().sum() / 2


@dataclass(frozen=True)
class Perceptron:
    """Linear, batch norm, tanh, dropout, linear; with `norm_first` a norm without gain before all.

    Running statistics are no parameters that descend: they stand in `statistics`, move by
    `momentum` to those of a batch in training, and are what counts outside of it.

    >>> tower = Perceptron("tower", 2, 3, 1)
    >>> p = tower.parameters(0, torch.float32) | tower.statistics(torch.float32)
    >>> tower(p, torch.zeros(5, 2), None).shape
    torch.Size([5, 1])
    >>> sum(value.numel() for value in tower.parameters(0, torch.float32).values())
    19
    """

    name: str
    width: int
    hidden: int
    out: int
    scale: float | None = None
    momentum: float = 0.1
    norm_first: bool = False
    dropout: float = 0.0

    def parameters(self, seed: int, dtype: torch.dtype) -> Params:
        """What descends: two linear layers, gain and shift of the norm between them."""
        layers = linear(f"{self.name}.first", self.width, self.hidden, self.scale)
        layers |= linear(f"{self.name}.last", self.hidden, self.out, self.scale)
        norms = {
            f"{self.name}.norm.gain": torch.ones(self.hidden, dtype=dtype),
            f"{self.name}.norm.shift": torch.zeros(self.hidden, dtype=dtype),
        }
        if self.norm_first:
            norms[f"{self.name}.before.shift"] = torch.zeros(self.width, dtype=dtype)
        return drawn(layers, seed, dtype) | norms

    def statistics(self, dtype: torch.dtype) -> Params:
        """Running means and variances."""
        widths = {"norm": self.hidden} | ({"before": self.width} if self.norm_first else {})
        zeros = {f"{self.name}.{n}.mean": torch.zeros(w, dtype=dtype) for n, w in widths.items()}
        ones = {f"{self.name}.{n}.variance": torch.ones(w, dtype=dtype) for n, w in widths.items()}
        return zeros | ones

    @property
    def weights(self) -> tuple[str, str]:
        return f"{self.name}.first.w", f"{self.name}.last.w"

    @property
    def biases(self) -> tuple[str, str]:
        return f"{self.name}.first.b", f"{self.name}.last.b"

    def __call__(self, p: Params, value_NW: Tensor, training: np.random.Generator | None) -> Tensor:
        """(N, out); in training by the statistics of these rows, which move the running ones in
        place, and with dropout from the generator."""
        if self.norm_first:
            value_NW = self._normed(p, "before", value_NW, training is not None)
        hidden_NH = self._normed(
            p, "norm", through(p, f"{self.name}.first", value_NW), training is not None
        )
        hidden_NH = torch.tanh(hidden_NH)
        if training is not None:
            hidden_NH = dropped(hidden_NH, self.dropout, training)
        return through(p, f"{self.name}.last", hidden_NH)

    def _normed(self, p: Params, norm: str, value: Tensor, training: bool) -> Tensor:
        name = f"{self.name}.{norm}"
        shift = p[f"{name}.shift"]
        return batch_norm(
            value,
            p[f"{name}.mean"],
            p[f"{name}.variance"],
            # a shift without a gain has no gradient on a GPU
            p.get(f"{name}.gain", torch.ones_like(shift)),
            shift,
            training,
            self.momentum,
            _EPSILON,
        )


def apart(p: Params, towers: Iterable[Perceptron]) -> tuple[Params, Params]:
    """What descends among the parameters, and the running statistics of towers.

    >>> tower = Perceptron("tower", 2, 3, 1)
    >>> both = tower.parameters(0, torch.float32) | tower.statistics(torch.float32)
    >>> sorted(apart(both, [tower])[1])
    ['tower.norm.mean', 'tower.norm.variance']
    """
    known = {name for tower in towers for name in tower.statistics(torch.float32)}
    moving = {name: value for name, value in p.items() if name not in known}
    return moving, {name: p[name] for name in known}


@dataclass
class Losses:
    """Adds up the losses of batches while they are descended, where they are computed.

    >>> losses = Losses()
    >>> _ = losses.told(lambda p: p["w"], rows=2)({"w": torch.tensor(3.0)})
    >>> _ = losses.told(lambda p: p["w"], rows=1)({"w": torch.tensor(6.0)})
    >>> losses.mean
    4.0
    """

    total: Tensor | float = 0.0
    rows: int = 0

    def told(self, loss: Callable[[Params], Tensor], rows: int) -> Callable[[Params], Tensor]:
        """The same loss, which is counted when somebody asks for it."""

        def counted(p: Params) -> Tensor:
            found = loss(p)
            self.total, self.rows = self.total + found.detach().double() * rows, self.rows + rows
            return found

        return counted

    @property
    def mean(self) -> float:
        return float(self.total) / self.rows if self.rows else float("nan")
