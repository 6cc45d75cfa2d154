"""Tables and the moments beside them; compiled steps of the rows that a batch reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.core.optim import Adam, Optimiser, Sgd
from tacit.core.types import Params

# Reassociation lets the loops vectorise; NaN and infinity keep their meaning.
FAST = {"contract", "arcp", "nsz", "reassoc"}


def with_row_moments(tables: Params, optimiser: Optimiser) -> Params:
    """The tables with moments at zero beside them, as "table/slot"; steps are counted by row.

    >>> import torch
    >>> sorted(with_row_moments({"items": torch.ones(3, 2)}, Adam()))
    ['items', 'items/first', 'items/second', 'items/steps']
    """
    full = dict(tables)
    for leaf, value in tables.items():
        full |= {f"{leaf}/{slot}": start for slot, start in optimiser.init(value, 1).items()}
    return full


@dataclass(frozen=True, eq=False)
class Law:
    """An optimiser as kernels take it: which one, its betas, and constants of the tables' kind.

    >>> Law.of(Sgd(), 0.5, np.float32).constants.tolist()
    [0.5, 0.0, 0.0]
    """

    adam: bool
    beta1: float
    beta2: float
    constants: np.ndarray  # rate, weight decay, epsilon

    @classmethod
    def of(cls, optimiser: Adam | Sgd, rate: float, dtype: type) -> Law:
        if isinstance(optimiser, Adam):
            numbers = [rate, optimiser.weight_decay, optimiser.epsilon]
            return cls(True, optimiser.beta1, optimiser.beta2, np.array(numbers, dtype))
        return cls(False, 0.0, 0.0, np.array([rate, optimiser.weight_decay, 0.0], dtype))


def arrays_of(leaves: Params, leaf: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A table and its moments (empty where the optimiser has none), sharing the tensors' memory."""
    table = leaves[leaf].numpy()
    if f"{leaf}/first" not in leaves:
        return table, table[:0], table[:0], table[:0, 0]
    first, second, steps = (leaves[f"{leaf}/{slot}"] for slot in ("first", "second", "steps"))
    return table, first.numpy(), second.numpy(), steps.numpy()


def step_rows(
    leaves: Params, leaf: str, row_N: np.ndarray, gradient_ND: np.ndarray, law: Law
) -> None:
    """One step of a table, in place, from a gradient for each sample and the row it read.

    Gradients of the same row are added up first. Rows that nobody read stay, and so do their
    moments and counts.

    >>> import torch
    >>> leaves = {"items": torch.zeros(3, 1)}
    >>> one = Law.of(Sgd(), 0.5, np.float32)
    >>> step_rows(leaves, "items", np.array([2, 1, 2]), np.ones((3, 1), np.float32), one)
    >>> leaves["items"].tolist()
    [[0.0], [-0.5], [-1.0]]
    """
    step_samples(
        *arrays_of(leaves, leaf), row_N, gradient_ND, law.adam, law.beta1, law.beta2, law.constants
    )


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
        total[:] = gradient_ND[order[begin]]
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
