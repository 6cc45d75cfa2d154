"""Tables with optimizer state beside them; compiled steps of rows; one epoch of matrix
factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit.compiled import compiled
from tacit.core.capabilities import stacked_optimizer_state, steps_entrywise, written_step
from tacit.core.optim import Optimiser
from tacit.core.types import Params

# Tables and the moments beside them; compiled steps of the rows that a batch reads.

# Reassociation lets the loops vectorise; NaN and infinity keep their meaning.
FAST = {"contract", "arcp", "nsz", "reassoc"}


def with_row_moments(tables: Params, optimiser: Optimiser) -> Params:
    """The tables with moments at zero beside them, as "table/state"; steps are counted by row.

    >>> import torch
    >>> from tacit.core.optim import Adam
    >>> sorted(with_row_moments({"items": torch.ones(3, 2)}, Adam()))
    ['items', 'items/first', 'items/second', 'items/steps']
    """
    full = dict(tables)
    for name, value in tables.items():
        full |= {
            f"{name}/{key}": start
            for key, start in stacked_optimizer_state(optimiser, value).items()
        }
    return full


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


def arrays_of(
    parameters: Params, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A table and its moments (empty where the optimiser has none), sharing the tensors' memory."""
    table = parameters[name].numpy()
    if f"{name}/first" not in parameters:
        return table, table[:0], table[:0], table[:0, 0]
    first, second, steps = (parameters[f"{name}/{key}"] for key in ("first", "second", "steps"))
    return table, first.numpy(), second.numpy(), steps.numpy()


def step_rows(
    parameters: Params, name: str, row_N: np.ndarray, gradient_ND: np.ndarray, step_rule: StepRule
) -> None:
    """One step of a table, in place, from a gradient for each sample and the row it read.

    Gradients of the same row are added up first. Rows that nobody read stay, and so do their
    moments and counts.

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
    step_samples(
        *arrays_of(parameters, name),
        row_N,
        gradient_ND,
        step_rule.adam,
        step_rule.beta1,
        step_rule.beta2,
        step_rule.constants,
    )


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
def step_samples(  # type: ignore[no-untyped-def]
    table, first, second, steps, row_N, gradient_ND, adam, beta1, beta2, constants
):
    width = table.shape[1]
    rate, weight_decay, epsilon = constants[0], constants[1], constants[2]
    total = np.empty(width, table.dtype)
    numbers = np.empty(6, table.dtype)  # of the tables' own kind: numba would go on in float64
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
        value = table[row]
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


# One epoch of matrix factorisation, compiled: gradients by hand, lazy rows.


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = a[0] * b[0]
    for d in range(1, n):
        total += a[d] * b[d]
    return total


@compiled(fastmath=FAST, error_model="numpy")
def mf_epoch(  # type: ignore[no-untyped-def]
    users,
    users_first,
    users_second,
    users_steps,
    items,
    items_first,
    items_second,
    items_steps,
    user_N,
    item_N,
    label_N,
    batch,
    adam,
    beta1,
    beta2,
    constants,
):
    """All batches in place; returns the sum of the losses.

    The loss of a sample is softplus(z) - y z with z = p·q. Its slope s = sigmoid(z) - y, divided by
    the size of the batch, gives s q for the user's row and s p for the item's.
    """
    width = users.shape[1]
    user_gradient = np.empty((batch, width), users.dtype)
    item_gradient = np.empty((batch, width), users.dtype)
    slope = np.empty(1, users.dtype)
    loss = 0.0
    for low in range(0, len(item_N), batch):
        size = min(batch, len(item_N) - low)
        for t in range(size):
            user, item = users[user_N[low + t]], items[item_N[low + t]]
            logit = np.float64(_dot(user, item, width))
            label = np.float64(label_N[low + t])
            decay = np.exp(-abs(logit))  # never overflows
            loss += max(logit, 0.0) + np.log1p(decay) - label * logit
            probability = (1.0 if logit >= 0 else decay) / (1.0 + decay)
            slope[0] = (probability - label) / size
            scale = slope[0]
            for d in range(width):
                user_gradient[t, d] = scale * item[d]
                item_gradient[t, d] = scale * user[d]
        step_samples(
            users,
            users_first,
            users_second,
            users_steps,
            user_N[low : low + size],
            user_gradient,
            adam,
            beta1,
            beta2,
            constants,
        )
        step_samples(
            items,
            items_first,
            items_second,
            items_steps,
            item_N[low : low + size],
            item_gradient,
            adam,
            beta1,
            beta2,
            constants,
        )
    return loss
