"""Steps of whole tables, in place: every entry moves at every batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from tacit.compiled import compiled
from tacit.core.capabilities import written_step
from tacit.core.optim import Optimiser, WrittenStep, stepped
from tacit.core.types import Params

_AT_ONCE = 1 << 15  # entries of a table: few enough to stay in the cache between two passes


def step_tables(parameters: Params, gradient: Params, optimiser: Optimiser, rate: float) -> Params:
    """All parameters after one step, as `stepped` has them: on the CPU to the last bit. Adam's step
    is taken where the parameters lie, which must be contiguous; other optimisers make new ones.

    >>> from tacit.core.optim import Adam, with_optimizer_state
    >>> parameters = with_optimizer_state({"w": torch.zeros(1)}, Adam())
    >>> after = step_tables(parameters, {"w": torch.ones(1)}, Adam(), 0.1)
    >>> round(after["w"].item(), 6), parameters["w"].item() == after["w"].item()
    (-0.1, True)
    """
    step = written_step(optimiser)
    if step is None or not step.adam:
        return stepped(parameters, gradient, optimiser, rate)
    if all(value.device.type == "cpu" for value in gradient.values()):
        for name, slope in gradient.items():
            _adam_of_table(parameters, name, slope, step, rate)
    else:
        adam_at_once(parameters, gradient, step, rate)
    return parameters


def adam_at_once(parameters: Params, gradient: Params, step: WrittenStep, rate: float) -> None:
    """Adam's step of all tables in one kernel of torch's, which rounds otherwise than ours."""
    first, second, steps = (
        [parameters[f"{name}/{key}"] for name in gradient] for key in ("first", "second", "steps")
    )
    counts = [one.float() for one in steps]  # the kernel counts in no other precision
    adam(
        [parameters[name] for name in gradient],
        [slope.contiguous() for slope in gradient.values()],
        first,
        second,
        [],
        counts,
        fused=True,
        amsgrad=False,
        beta1=step.beta1,
        beta2=step.beta2,
        lr=rate,
        weight_decay=step.weight_decay,
        eps=step.epsilon,
        maximize=False,
    )
    for one, count in zip(steps, counts, strict=True):
        one.copy_(count)


def _adam_of_table(
    parameters: Params, name: str, slope: Tensor, step: WrittenStep, rate: float
) -> None:
    value, first, second = (
        parameters[key].numpy().reshape(-1) for key in (name, f"{name}/first", f"{name}/second")
    )
    count = parameters[f"{name}/steps"].add_(1).double()
    betas = (step.beta1, step.beta2)
    share1, share2 = ((1 - beta**count).item() for beta in betas)  # as `Adam.update` rounds them
    numbers = [step.beta1, 1 - step.beta1, share1, step.beta2, 1 - step.beta2, share2]
    constants = np.array([*numbers, rate, step.epsilon, step.weight_decay], value.dtype)
    slope_N = slope.numpy().reshape(-1)
    root = torch.empty(min(len(value), _AT_ONCE), dtype=slope.dtype)
    for low in range(0, len(value), _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        columns, some = (value[part], first[part], second[part]), root[: len(value) - low]
        _moments(*columns, slope_N[part], some.numpy(), constants)
        some.sqrt_()  # torch's has other last bits than numba's
        _moved(*columns[:2], some.numpy(), constants)


# Nothing is reassociated: each entry is rounded as by `Adam.update`.


@compiled(error_model="numpy")
def _moments(value_N, first_N, second_N, slope_N, spread_N, constants):  # type: ignore[no-untyped-def]
    """Both moments after a gradient, in place, and the second without its bias."""
    keep1, take1, _, keep2, take2, share2, _, _, weight_decay = constants
    for n in range(len(value_N)):
        slope = slope_N[n]
        if weight_decay != 0:
            slope = slope + weight_decay * value_N[n]
        first_N[n] = keep1 * first_N[n] + take1 * slope
        second_N[n] = keep2 * second_N[n] + take2 * slope * slope
        spread_N[n] = second_N[n] / share2


@compiled(error_model="numpy")
def _moved(value_N, first_N, root_N, constants):  # type: ignore[no-untyped-def]
    """The values after a step along the first moment over the root of the second, in place."""
    share1, rate, epsilon = constants[2], constants[6], constants[7]
    for n in range(len(value_N)):
        value_N[n] -= rate * (first_N[n] / share1) / (root_N[n] + epsilon)
