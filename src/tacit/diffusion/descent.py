"""Steps of an optimiser on named leaves, whose memory lies among them under "adam."."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.types import Params

_MEMORY = "adam."


def with_memory(optimiser: Optimiser, leaves: Params) -> Params:
    """The leaves, and what the optimiser remembers: of all of them as one long leaf, in the order
    of their names, since dozens of small ones would cost more time than their numbers do.

    >>> from tacit.core.optim import Adam, Sgd
    >>> p = with_memory(Adam(), {"w": torch.zeros(2), "b": torch.zeros(1)})
    >>> sorted(p), len(p["adam.first"])
    (['adam.first', 'adam.second', 'adam.steps', 'b', 'w'], 3)
    >>> sorted(with_memory(Sgd(), {"w": torch.zeros(2)}))
    ['w']
    """
    memory = optimiser.init(_joined(leaves), 0)
    return {**leaves, **{f"{_MEMORY}{slot}": value for slot, value in memory.items()}}


def descended(
    optimiser: Optimiser, p: Params, loss: Callable[[Params], Tensor], rate: float
) -> Params:
    """All leaves after one step down the loss. The memory lasts from call to call: the server
    keeps it, whatever lifetime an optimiser has on a client.

    >>> from tacit.core.optim import Sgd
    >>> p = descended(Sgd(), {"w": torch.ones(2)}, lambda p: p["w"].sum(), rate=0.5)
    >>> p["w"].tolist()
    [0.5, 0.5]
    """
    start = len(_MEMORY)
    memory = {name[start:]: value for name, value in p.items() if name.startswith(_MEMORY)}
    leaves = {name: leaf for name, leaf in p.items() if not name.startswith(_MEMORY)}
    joined = _joined(leaves)
    with torch.enable_grad():
        moving = joined.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(_parted(moving, leaves)), moving)
    joined, memory = optimiser.update(joined, gradient, memory, rate)
    # each leaf has its own memory again: a file of leaves takes no two that share it
    after = {name: leaf.clone() for name, leaf in _parted(joined, leaves).items()}
    return {**after, **{f"{_MEMORY}{slot}": value for slot, value in memory.items()}}


def _joined(leaves: Params) -> Tensor:
    return torch.cat([leaves[name].reshape(-1) for name in sorted(leaves)])


def _parted(joined: Tensor, like: Params) -> Params:
    names = sorted(like)
    parts = joined.split([like[name].numel() for name in names])
    return {name: part.view(like[name].shape) for name, part in zip(names, parts, strict=True)}
