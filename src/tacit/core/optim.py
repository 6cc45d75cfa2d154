"""Optimisers as values: elementwise, so the same code steps one client or a block of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Part


@dataclass(frozen=True)
class WrittenStep:
    """The numbers of a step that kernels have written down: plain descent, or Adam's."""

    weight_decay: float
    adam: bool = False
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0


class Optimiser(Part):
    """A rule that turns a gradient into a step; a new one is a class with the method `update`.

    A class may say `entrywise = True` beside its own `init` and `update`: an entry's step depends
    on that entry alone. Engines then step many clients at once, on stacked values; `batch_dims`
    says how many axes of them are clients. Without the word they step one client at a time.
    """

    rate: float = 0.1
    per_item: float | None = None
    decay: float = 1.0
    lifetime: Literal["round", "persistent"] = "round"
    entrywise: bool = False

    @property
    def written_down(self) -> WrittenStep | None:
        """The numbers of a step that kernels can take by themselves; None where they cannot."""
        return None

    def rate_at(self, round_number: int, n_items: int) -> float:
        """The rate of a round; a pure function of the round."""
        return scheduled_rate(self.rate, self.per_item, self.decay, round_number, n_items)

    def init(self, value: Tensor, batch_dims: int) -> Params:
        """What the optimiser remembers of a value before the first step."""
        return {}

    def update(
        self, value: Tensor, gradient: Tensor, state: Params, rate: float
    ) -> tuple[Tensor, Params]:
        """The value after a step, and what is remembered then."""
        raise NotImplementedError


def scheduled_rate(
    rate: float, per_item: float | None, decay: float, round_number: int, n_items: int
) -> float:
    """`rate`, times η·I where η = `per_item` is given, times decay^(round - 1); rounds from 1.

    >>> scheduled_rate(0.1, 80.0, 1.0, 1, 1682)
    13456.0
    """
    scale = 1.0 if per_item is None else per_item * n_items
    return rate * scale * decay ** (round_number - 1)


@register("sgd")
@dataclass(frozen=True)
class Sgd(Optimiser):
    """Plain gradient descent.

    `per_item` multiplies the rate by η·I: a mean over clients and over a batch shrinks an item's
    step by about that much, and the released code of the field undoes it so. On item rows, weight
    decay acts on the rows that a client touches in the round, at every step.

    >>> step, _ = Sgd(rate=0.5).update(torch.ones(2), torch.ones(2), {}, 0.5)
    >>> step.tolist()
    [0.5, 0.5]
    """

    entrywise = True

    rate: float = 0.1
    per_item: float | None = None
    decay: float = 1.0
    weight_decay: float = 0.0

    @property
    def written_down(self) -> WrittenStep:
        return WrittenStep(self.weight_decay)

    def init(self, value: Tensor, batch_dims: int) -> Params:
        return {}

    def update(
        self, value: Tensor, gradient: Tensor, state: Params, rate: float
    ) -> tuple[Tensor, Params]:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * value
        return value - rate * gradient, state


@register("momentum")
@dataclass(frozen=True)
class Momentum(Optimiser):
    """Descent along a velocity: velocity = mass · velocity + gradient, and a step against it.

    >>> heavy, value = Momentum(mass=0.5), torch.zeros(1)
    >>> state = heavy.init(value, 0)
    >>> for _ in range(2):
    ...     value, state = heavy.update(value, torch.ones(1), state, 0.1)
    >>> round(value.item(), 6)  # steps of 0.1 and 0.15
    -0.25
    """

    entrywise = True

    rate: float = 0.01
    per_item: float | None = None
    decay: float = 1.0
    mass: float = 0.9
    lifetime: Literal["round", "persistent"] = "round"

    def init(self, value: Tensor, batch_dims: int) -> Params:
        return {"velocity": torch.zeros_like(value)}

    def update(
        self, value: Tensor, gradient: Tensor, state: Params, rate: float
    ) -> tuple[Tensor, Params]:
        velocity = self.mass * state["velocity"] + gradient
        return value - rate * velocity, {"velocity": velocity}


@register("adam")
@dataclass(frozen=True)
class Adam(Optimiser):
    """Adam with bias correction. `lifetime="persistent"` keeps a client's optimizer state between
    rounds; item rows that are replaced every round can only have the lifetime of a round.

    >>> adam = Adam(rate=0.1)
    >>> value, state = adam.update(torch.zeros(1), torch.ones(1), adam.init(torch.zeros(1), 0), 0.1)
    >>> round(value.item(), 6)
    -0.1
    """

    entrywise = True

    rate: float = 0.001
    per_item: float | None = None
    decay: float = 1.0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    lifetime: Literal["round", "persistent"] = "round"

    @property
    def written_down(self) -> WrittenStep:
        return WrittenStep(self.weight_decay, True, self.beta1, self.beta2, self.epsilon)

    def init(self, value: Tensor, batch_dims: int) -> Params:
        """Moments and a step count; the count has one entry per client of a block."""
        return {
            "first": torch.zeros_like(value),
            "second": torch.zeros_like(value),
            "steps": value.new_zeros(value.shape[:batch_dims]),
        }

    def update(
        self, value: Tensor, gradient: Tensor, state: Params, rate: float
    ) -> tuple[Tensor, Params]:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * value
        steps = state["steps"] + 1
        first = self.beta1 * state["first"] + (1 - self.beta1) * gradient
        second = self.beta2 * state["second"] + (1 - self.beta2) * gradient * gradient
        # one step count per client, spread over that client's entries; in double precision, since
        # 1 - 0.999 has only five good digits in single
        count = steps.double().reshape(steps.shape + (1,) * (value.dim() - steps.dim()))
        mean = first / (1 - self.beta1**count).to(value.dtype)
        spread = (second / (1 - self.beta2**count).to(value.dtype)).sqrt()
        return value - rate * mean / (spread + self.epsilon), {
            "first": first,
            "second": second,
            "steps": steps,
        }


# Adam's state as parameters, for whoever keeps it: a server among its own, a client among its
# own.
#
# The state of parameter "w" is the parameters "w/first" and "w/second", and its count of steps
# "w/steps".

ADAM_STATE = ("first", "second", "steps")


def with_adam_state(parameters: dict[str, Initializer]) -> dict[str, Initializer]:
    """The parameters, and zeros for their optimizer state.

    >>> sorted(with_adam_state({"w": Initializer((3,))}))
    ['w', 'w/first', 'w/second', 'w/steps']
    """
    zeros = {
        f"{name}/{key}": Initializer(() if key == "steps" else init.shape)
        for name, init in parameters.items()
        for key in ADAM_STATE
    }
    return {**parameters, **zeros}


def without_optimizer_state(p: Params) -> Params:
    """What a model is made of, and a client needs.

    >>> sorted(without_optimizer_state({"w": torch.zeros(3), "w/first": torch.zeros(3)}))
    ['w']
    """
    return {name: value for name, value in p.items() if "/" not in name}


def with_optimizer_state(values: Params, optimiser: Optimiser) -> Params:
    """The values, and what the optimiser remembers of each before its first step.

    >>> sorted(with_optimizer_state({"w": torch.zeros(3)}, Adam()))
    ['w', 'w/first', 'w/second', 'w/steps']
    """
    state = {
        f"{name}/{key}": part
        for name, value in values.items()
        for key, part in optimiser.init(value, 0).items()
    }
    return values | state


def stepped(parameters: Params, gradient: Params, optimiser: Optimiser, rate: float) -> Params:
    """All parameters after one step of any optimiser whose state stands among them; parameters
    that the gradient does not name stay.

    >>> after = stepped({"w": torch.ones(1), "v": torch.ones(1)}, {"w": torch.ones(1)}, Sgd(), 0.5)
    >>> after["w"].item(), after["v"].item()
    (0.5, 1.0)
    """
    after = dict(parameters)
    for name, slope in gradient.items():
        keys = [key for key in parameters if key.startswith(f"{name}/")]
        state = {key.removeprefix(f"{name}/"): parameters[key] for key in keys}
        after[name], state = optimiser.update(parameters[name], slope, state, rate)
        after |= {f"{name}/{key}": part for key, part in state.items()}
    return after


def adam_step(adam: Adam, p: Params, gradient: Params, rate: float) -> Params:
    """All parameters after one step along `gradient`; parameters that it does not name stay.

    >>> declared = with_adam_state({"w": Initializer((1,))})
    >>> p = {name: torch.zeros(init.shape) for name, init in declared.items()}
    >>> after = adam_step(Adam(), p, {"w": torch.ones(1)}, 0.1)
    >>> round(after["w"].item(), 6), after["w/steps"].item()
    (-0.1, 1.0)
    """
    after = dict(p)
    for name, slope in gradient.items():
        state = {key: p[f"{name}/{key}"] for key in ADAM_STATE}
        after[name], state = adam.update(p[name], slope, state, rate)
        after |= {f"{name}/{key}": value for key, value in state.items()}
    return after


def clipped(gradient: Params, bound: float | None) -> Params:
    """The gradient, scaled so that its norm over all parameters is at most `bound`.

    >>> clipped({"w": torch.tensor([3.0, 4.0])}, 1.0)["w"].tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    if bound is None:
        return gradient
    norm = torch.stack([(slope * slope).sum() for slope in gradient.values()]).sum().sqrt()
    scale = (bound / norm.clamp(min=1e-30)).clamp(max=1.0)
    return {name: scale * slope for name, slope in gradient.items()}
