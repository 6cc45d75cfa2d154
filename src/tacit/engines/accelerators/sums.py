"""Sums over rows of tables that the general path leaves to compiled code."""

from __future__ import annotations

import numpy as np
import torch

from tacit.compiled import compiled


def scatter_add(
    table: torch.Tensor, index_N: torch.Tensor, value_ND: torch.Tensor, factor: float
) -> None:
    """table[index] += factor * value, in place; repeated rows accumulate in the order given. On a
    GPU torch's own function does it.

    >>> table = torch.zeros(2, 1)
    >>> scatter_add(table, torch.tensor([1, 1]), torch.ones(2, 1), 0.5)
    >>> table.tolist()
    [[0.0], [1.0]]
    """
    if table.is_cuda:
        table.index_add_(0, index_N, value_ND, alpha=factor)
        return
    scale = table.numpy().dtype.type(factor)
    _scatter_add(table.numpy(), index_N.numpy(), value_ND.contiguous().numpy(), scale)


@compiled(error_model="numpy")
def _scatter_add(table, index, value, factor):  # type: ignore[no-untyped-def]
    for n in range(len(index)):
        row = index[n]
        for d in range(value.shape[1]):
            table[row, d] += factor * value[n, d]


@compiled(error_model="numpy")
def add_rows(total_ID, item_BR, rows_B, value_BRD):  # type: ignore[no-untyped-def]
    """total[item] += value for the real rows of each client of a block."""
    for b in range(len(rows_B)):
        for r in range(rows_B[b]):
            item = item_BR[b, r]
            for d in range(value_BRD.shape[2]):
                total_ID[item, d] += value_BRD[b, r, d]


@compiled(error_model="numpy")
def sum_tables(users, weights, table, own, total):  # type: ignore[no-untyped-def]
    """total += Σ weight · (own table - global table), in float64, in the order of the users; a
    table of weight 0 adds nothing, whatever stands there."""
    for k in range(len(users)):
        if weights[k] == 0.0:
            continue
        for item in range(own.shape[1]):
            for d in range(own.shape[2]):
                change = np.float64(own[users[k], item, d] - table[item, d])
                total[item, d] += weights[k] * change


def in_order(total_C: np.ndarray) -> np.ndarray:
    """The sum over chunks of clients, in their order.

    >>> in_order(np.array([[1.0], [2.0]])).tolist()
    [3.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is said where it is ranked
        found = np.zeros_like(total_C[0])
        for part in total_C:
            found += part
    return found
