"""Tables with optimizer state beside them, and compiled steps of the rows that a batch reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tacit.compiled import compiled
from tacit.core.capabilities import stacked_optimizer_state, steps_entrywise, written_step
from tacit.core.optim import Optimiser
from tacit.core.types import Params

# Reassociation lets the loops vectorise; NaN and infinity keep their meaning.
FAST = {"contract", "arcp", "nsz", "reassoc"}


def with_row_state(tables: Params, optimiser: Optimiser) -> Params:
    """The tables with optimizer state beside them, as "table/state"; steps are counted by row.

    >>> import torch
    >>> from tacit.core.optim import Adam
    >>> sorted(with_row_state({"items": torch.ones(3, 2)}, Adam()))
    ['items', 'items/first', 'items/second', 'items/steps']
    """
    full = dict(tables)
    for name, value in tables.items():
        full |= {
            f"{name}/{key}": start
            for key, start in stacked_optimizer_state(optimiser, value).items()
        }
    return full


class Table(NamedTuple):
    """A table as kernels take it: values, and Adam's state of each row, empty for plain descent."""

    values: np.ndarray
    first: np.ndarray
    second: np.ndarray
    steps: np.ndarray

    @classmethod
    def empty(cls, dtype: np.dtype) -> Table:
        """One without rows, for what a model does not have."""
        nothing = np.empty((0, 0), dtype)
        return cls(nothing, nothing, nothing, nothing.ravel())


class Step(NamedTuple):
    """A step as kernels take it; `constants` are rate, weight decay and epsilon."""

    adam: bool
    beta1: float
    beta2: float
    constants: np.ndarray


@dataclass(frozen=True, eq=False)
class StepRule:
    """An optimiser as kernels take it: which one, its betas, and constants of the tables' kind.
    `other` is an optimiser that no kernel has written down, a subclass too: it is asked itself.

    >>> from tacit.core.optim import Sgd
    >>> StepRule.of(Sgd(), 0.5, np.float32).constants.tolist()
    [0.5, 0.0, 0.0]
    """

    adam: bool
    beta1: float
    beta2: float
    constants: np.ndarray  # rate, weight decay, epsilon
    other: Optimiser | None = None

    @property
    def step(self) -> Step:
        return Step(self.adam, self.beta1, self.beta2, self.constants)

    @classmethod
    def of(cls, optimiser: Optimiser, rate: float, dtype: type) -> StepRule:
        step = written_step(optimiser)
        if step is None:
            return cls(False, 0.0, 0.0, np.array([rate, 0.0, 0.0], dtype), optimiser)
        numbers: np.ndarray = np.array([rate, step.weight_decay, step.epsilon], dtype)
        return cls(step.adam, step.beta1, step.beta2, numbers)


def is_written_down(optimiser: Optimiser) -> bool:
    """Whether kernels take its steps themselves.

    >>> from tacit.core.optim import Adam
    >>> is_written_down(Adam())
    True
    """
    return StepRule.of(optimiser, 0.0, np.float32).other is None


def table_of(parameters: Params, name: str) -> Table:
    """A table with its state, sharing the tensors' memory."""
    values = parameters[name].numpy()
    if f"{name}/first" not in parameters:
        return Table(values, values[:0], values[:0], values[:0, 0])
    first, second, steps = (parameters[f"{name}/{key}"] for key in ("first", "second", "steps"))
    return Table(values, first.numpy(), second.numpy(), steps.numpy())


def step_rows(
    parameters: Params, name: str, row_N: np.ndarray, gradient_ND: np.ndarray, step_rule: StepRule
) -> None:
    """One step of a table, in place, from a gradient for each sample and the row it read.

    Gradients of the same row are added up first. Rows that nobody read stay, and so does their
    optimizer state.

    >>> import torch
    >>> from tacit.core.optim import Sgd
    >>> parameters = {"items": torch.zeros(3, 1)}
    >>> one = StepRule.of(Sgd(), 0.5, np.float32)
    >>> step_rows(parameters, "items", np.array([2, 1, 2]), np.ones((3, 1), np.float32), one)
    >>> parameters["items"].tolist()
    [[0.0], [-0.5], [-1.0]]
    """
    if step_rule.other is not None:
        _step_as_asked(
            parameters, name, row_N, gradient_ND, step_rule.other, float(step_rule.constants[0])
        )
        return
    step_samples(table_of(parameters, name), row_N, gradient_ND, step_rule.step)


def _step_as_asked(
    parameters: Params,
    parameter: str,
    row_N: np.ndarray,
    gradient_ND: np.ndarray,
    optimiser: Optimiser,
    rate: float,
) -> None:
    """The same step by the optimiser's own `update`; rows are to it what clients are elsewhere."""
    row_R, place_N = np.unique(row_N, return_inverse=True)
    total_RD = np.zeros((len(row_R), gradient_ND.shape[1]), gradient_ND.dtype)
    np.add.at(total_RD, place_N, gradient_ND[: len(row_N)])
    rows, gradient = torch.from_numpy(row_R), torch.from_numpy(total_RD)
    names = {
        name.removeprefix(f"{parameter}/"): name
        for name in parameters
        if name.startswith(f"{parameter}/")
    }
    pieces = [rows] if steps_entrywise(optimiser) else list(rows)
    for number, piece in enumerate(pieces):
        slope = gradient if steps_entrywise(optimiser) else gradient[number]
        state = {key: parameters[name][piece] for key, name in names.items()}
        value, state = optimiser.update(parameters[parameter][piece], slope, state, rate)
        parameters[parameter][piece] = value
        for key, new in state.items():
            parameters[names[key]][piece] = new


# Put into its callers: a call would be optimised twice, and differently in a process that compiles
# than in one that loads from the cache; their last bits would differ.
@compiled(fastmath=FAST, error_model="numpy", inline="always")
def step_samples(table, row_N, gradient_ND, step):  # type: ignore[no-untyped-def]
    """One step of a table in place; gradients of the same row are added up in their order."""
    values, first, second, steps = table
    adam, beta1, beta2, constants = step
    width = values.shape[1]
    rate, weight_decay, epsilon = constants[0], constants[1], constants[2]
    total = np.empty(width, values.dtype)
    numbers = np.empty(6, values.dtype)  # of the tables' own kind: numba would go on in float64
    numbers[0], numbers[1], numbers[2], numbers[3] = beta1, 1.0 - beta1, beta2, 1.0 - beta2
    keep1, take1, keep2, take2 = numbers[0], numbers[1], numbers[2], numbers[3]
    order = np.argsort(row_N, kind="mergesort")
    begin = 0
    while begin < len(order):
        row = row_N[order[begin]]
        end = begin + 1
        gradient = gradient_ND[order[begin]]
        for d in range(width):
            total[d] = gradient[d]
        while end < len(order) and row_N[order[end]] == row:
            gradient = gradient_ND[order[end]]
            for d in range(width):
                total[d] += gradient[d]
            end += 1
        begin = end
        value = values[row]
        for d in range(width):
            total[d] += weight_decay * value[d]
        if not adam:
            for d in range(width):
                value[d] -= rate * total[d]
            continue
        steps[row] += 1
        numbers[4] = 1.0 - beta1 ** np.float64(steps[row])
        numbers[5] = 1.0 - beta2 ** np.float64(steps[row])
        share1, share2 = numbers[4], numbers[5]
        first_D, second_D = first[row], second[row]
        for d in range(width):
            first_D[d] = keep1 * first_D[d] + take1 * total[d]
            second_D[d] = keep2 * second_D[d] + take2 * total[d] * total[d]
            spread = np.sqrt(second_D[d] / share2)
            value[d] -= rate * (first_D[d] / share1) / (spread + epsilon)
