"""Adding rows into tables where row numbers repeat: compiled on the CPU, torch's own on a GPU."""

from __future__ import annotations

import torch

from tacit.compiled import compiled


def scatter_add(
    table: torch.Tensor, index_N: torch.Tensor, value_ND: torch.Tensor, factor: float
) -> None:
    """table[index] += factor * value, in place; repeated rows accumulate in the order given.

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
