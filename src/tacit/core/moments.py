"""Adam's moments as leaves, for whoever keeps them: a server among its own, a client among its own.

The moments of leaf "w" are the leaves "w/first" and "w/second", its count of steps "w/steps".
"""

from __future__ import annotations

import torch

from tacit.core.optim import Adam
from tacit.core.types import Init, Params

SLOTS = ("first", "second", "steps")


def with_moments(leaves: dict[str, Init]) -> dict[str, Init]:
    """The leaves, and zeros for their moments.

    >>> sorted(with_moments({"w": Init((3,))}))
    ['w', 'w/first', 'w/second', 'w/steps']
    """
    zeros = {
        f"{leaf}/{slot}": Init(() if slot == "steps" else init.shape)
        for leaf, init in leaves.items()
        for slot in SLOTS
    }
    return {**leaves, **zeros}


def without_moments(p: Params) -> Params:
    """What a model is made of, and a client needs.

    >>> sorted(without_moments({"w": torch.zeros(3), "w/first": torch.zeros(3)}))
    ['w']
    """
    return {leaf: value for leaf, value in p.items() if "/" not in leaf}


def adam_step(adam: Adam, p: Params, gradient: Params, rate: float) -> Params:
    """All leaves after one step along `gradient`; leaves that it does not name stay.

    >>> declared = with_moments({"w": Init((1,))})
    >>> p = {name: torch.zeros(init.shape) for name, init in declared.items()}
    >>> after = adam_step(Adam(), p, {"w": torch.ones(1)}, 0.1)
    >>> round(after["w"].item(), 6), after["w/steps"].item()
    (-0.1, 1.0)
    """
    after = dict(p)
    for leaf, slope in gradient.items():
        state = {slot: p[f"{leaf}/{slot}"] for slot in SLOTS}
        after[leaf], state = adam.update(p[leaf], slope, state, rate)
        after |= {f"{leaf}/{slot}": value for slot, value in state.items()}
    return after


def clipped(gradient: Params, bound: float | None) -> Params:
    """The gradient, scaled so that its norm over all leaves is at most `bound`.

    >>> clipped({"w": torch.tensor([3.0, 4.0])}, 1.0)["w"].tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    if bound is None:
        return gradient
    norm = torch.stack([(slope * slope).sum() for slope in gradient.values()]).sum().sqrt()
    scale = (bound / norm.clamp(min=1e-30)).clamp(max=1.0)
    return {leaf: scale * slope for leaf, slope in gradient.items()}
