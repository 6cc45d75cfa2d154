"""Graphs of users and items, and of items alike in content: sparse products with a gradient.

A graph is built of train interactions only. Products are torch's on compressed rows: on one core
they are the fastest of torch's kinds and take a fifth less time than scipy's
(docs/results/independent.md). Indices have 32 bits: of wider ones the CPU's library makes a copy
for every product, and a GPU reads twice as much. The same code runs on a GPU, where a matrix that
is dense enough is written out with its zeros.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tacit.data.views import Lists
from tacit.errors import TacitError

_SIMILARITIES_AT_ONCE = 1 << 24  # of items with all others, so that memory stays bounded


_LEAST_DENSITY = 1 / 100  # of a matrix that a GPU multiplies faster with its zeros than without
_MOST_ENTRIES = 1 << 28  # of a matrix with its zeros: a gigabyte in single precision


class _Product(torch.autograd.Function):
    """A constant linear map of a dense matrix; the gradient is what the transposed map makes."""

    @staticmethod
    def forward(
        ctx: Any, there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor], dense: Tensor
    ) -> Tensor:
        ctx.back = back
        return there(dense)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return None, None, ctx.back(slopes[0].contiguous())


def pays_dense(shape: tuple[int, int], stored: int, device: torch.device | str) -> bool:
    """Whether products with a matrix that has `stored` entries take less time with its zeros
    written out. On a GPU they do from about one entry in a hundred, as long as there is room.

    >>> pays_dense((6040, 3706), 988_129, "cuda"), pays_dense((6040, 3706), 988_129, "cpu")
    (True, False)
    >>> pays_dense((3706, 3706), 37_060, "cuda"), pays_dense((40_000, 40_000), 10**8, "cuda")
    (False, False)
    """
    entries = shape[0] * shape[1]
    enough = stored >= _LEAST_DENSITY * entries and entries <= _MOST_ENTRIES
    return enough and torch.device(device).type != "cpu"


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant sparse matrix, ready to be multiplied with dense ones under autograd. With
    `dense` its zeros are written out, as `pays_dense` says where nothing else is said.

    >>> half = SparseMatrix.of(scipy.sparse.csr_array(np.array([[0.0, 0.5]])), torch.float64)
    >>> column = torch.tensor([[3.0], [4.0]], dtype=torch.float64, requires_grad=True)
    >>> (half @ column).item(), torch.autograd.grad((half @ column).sum(), column)[0].tolist()
    (2.0, [[0.0], [0.5]])
    """

    matrix: Tensor
    transposed: Tensor

    @classmethod
    def of(
        cls,
        matrix: scipy.sparse.sparray,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        *,
        dense: bool | None = None,
    ) -> SparseMatrix:
        if pays_dense(matrix.shape, matrix.nnz, device) if dense is None else dense:
            whole = _written_out(matrix, dtype, device)
            return cls(whole, whole.T)
        matrices = (matrix.tocsr(), matrix.T.tocsr())
        return cls(*(_compressed(one).to(device=device, dtype=dtype) for one in matrices))

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.shape
        return rows, columns

    def __matmul__(self, dense_ND: Tensor) -> Tensor:
        product: Tensor = _Product.apply(
            self.matrix.__matmul__, self.transposed.__matmul__, dense_ND
        )
        return product


@dataclass(frozen=True, eq=False)
class BothWays:
    """Users beside items with links from each to the other, as `both_ways` has them: held once, as
    what users hear of items.

    >>> links = SparseMatrix.of(scipy.sparse.csr_array(np.array([[2.0]])), torch.float32)
    >>> (BothWays(links) @ torch.tensor([[1.0], [3.0]])).tolist()
    [[6.0], [2.0]]
    """

    to_users: SparseMatrix  # (U, I)

    @classmethod
    def of(
        cls,
        links_UI: scipy.sparse.csr_array,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        *,
        dense: bool | None = None,
    ) -> BothWays:
        """The links, each over the roots of both degrees."""
        return cls(SparseMatrix.of(normalised(links_UI), dtype, device, dense=dense))

    def __matmul__(self, row_ND: Tensor) -> Tensor:
        # each way is the other one transposed
        product: Tensor = _Product.apply(self._heard, self._heard, row_ND)
        return product

    def _heard(self, row_ND: Tensor) -> Tensor:
        user_UD, item_ID = row_ND.split(self.to_users.shape)
        return torch.cat([self.to_users.matrix @ item_ID, self.to_users.transposed @ user_UD])


def _compressed(matrix: scipy.sparse.csr_array) -> Tensor:
    width = np.int32 if matrix.nnz <= np.iinfo(np.int32).max else np.int64
    with warnings.catch_warnings():  # torch calls compressed rows a beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(width)),
            torch.from_numpy(matrix.indices.astype(width)),
            torch.from_numpy(matrix.data.astype(np.float64)),
            size=matrix.shape,
        )


def _written_out(
    matrix: scipy.sparse.sparray, dtype: torch.dtype, device: torch.device | str
) -> Tensor:
    """With its zeros; only what is stored goes to the device. Rows begin at multiples of 32 bytes,
    which the products of a GPU are faster with."""
    entries = matrix.tocoo()
    row_N, column_N = (torch.from_numpy(at.astype(np.int64)).to(device) for at in entries.coords)
    value_N = torch.from_numpy(entries.data).to(device=device, dtype=dtype)
    rows, columns = matrix.shape
    padded = torch.zeros((rows, -(-columns // 8) * 8), dtype=dtype, device=device)
    return padded.index_put_((row_N, column_N), value_N, accumulate=True)[:, :columns]


# Users and items.


def incidence(positives: Lists, n_items: int) -> scipy.sparse.csr_array:
    """(U, I) with a one where a user has an item; what stands there twice counts once.

    >>> incidence(Lists(np.array([0, 3]), np.array([1, 1, 0])), 3).toarray().tolist()
    [[1.0, 1.0, 0.0]]
    """
    shape = (len(positives), n_items)
    pair_N = np.unique(positives.list_N * n_items + positives.item_N)
    return scipy.sparse.csr_array(
        (np.ones(len(pair_N)), (pair_N // n_items, pair_N % n_items)), shape=shape
    )


def normalised(incidence_UI: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """(U, I) each entry over the square roots of its row's and its column's sum.

    >>> normalised(scipy.sparse.csr_array(np.array([[1.0, 1.0], [0.0, 0.0]]))).toarray()[0].round(4)
    array([0.7071, 0.7071])
    """
    sides = [np.asarray(incidence_UI.sum(axis=axis), np.float64).ravel() for axis in (1, 0)]
    roots = [np.zeros_like(side) for side in sides]
    for root, side in zip(roots, sides, strict=True):
        root[side > 0] = side[side > 0] ** -0.5  # who has no neighbour stays without
    left, right = (scipy.sparse.diags_array(root) for root in roots)
    return scipy.sparse.csr_array(left @ incidence_UI @ right)


def both_ways(normalised_UI: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """(U + I, U + I) users beside items: links from each to the other, and none to oneself.

    >>> both_ways(scipy.sparse.csr_array(np.array([[2.0]]))).toarray().tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    blocks = [[None, normalised_UI], [normalised_UI.T, None]]
    return scipy.sparse.csr_array(scipy.sparse.block_array(blocks))


def each_layer(graph: SparseMatrix | BothWays, row_ND: Tensor, count: int) -> list[Tensor]:
    """The rows, and what they are after each of `count` steps through the graph.

    >>> graph = BothWays(SparseMatrix.of(scipy.sparse.csr_array(np.ones((1, 1))), torch.float32))
    >>> [row_ND.flatten().tolist() for row_ND in each_layer(graph, torch.tensor([[1.0], [3.0]]), 2)]
    [[1.0, 3.0], [3.0, 1.0], [1.0, 3.0]]
    """
    found = [row_ND]
    for _ in range(count):
        found.append(graph @ found[-1])
    return found


def propagate(
    graph: SparseMatrix | BothWays, user_UD: Tensor, item_ID: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The mean of the rows and of their first `count` steps through the graph (LightGCN).

    >>> graph = BothWays(SparseMatrix.of(scipy.sparse.csr_array(np.ones((1, 1))), torch.float32))
    >>> [x.item() for x in propagate(graph, torch.tensor([[1.0]]), torch.tensor([[3.0]]), 1)]
    [2.0, 2.0]
    """
    first_ND, *others = each_layer(graph, torch.cat([user_UD, item_ID]), count)
    mean_ND = sum(others, first_ND) / (count + 1)
    return mean_ND[: len(user_UD)], mean_ND[len(user_UD) :]


# Items alike in content.


def nearest_items(
    value_IF: np.ndarray, neighbours: int, weights: Literal["similarity", "equal"]
) -> scipy.sparse.csr_array:
    """(I, I) each item's links to those with the largest cosine, itself among them; ties go to the
    item that comes first. Links have a direction: who is near to one may be far from its nearest.

    With `similarity` a link is the cosine over the square roots of both items' sums of links
    (MGCN); with `equal` all links of an item are 1 / `neighbours` (PGL). Where the similarities of
    an item sum to nothing, or less, it has no links.

    >>> value_IF = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> nearest_items(value_IF, 2, "equal").toarray().tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    """
    if neighbours < 1:
        raise TacitError(f"neighbours is {neighbours}; it must be at least 1.")
    n_items, kept = len(value_IF), min(neighbours, len(value_IF))
    length_I1 = np.linalg.norm(value_IF.astype(np.float64), axis=1, keepdims=True)
    unit_IF = value_IF / np.maximum(length_I1, 1e-12)  # an item without content is like nobody
    columns, cosines, size = [], [], max(1, _SIMILARITIES_AT_ONCE // n_items)
    for low in range(0, n_items, size):
        cosine_BI = (unit_IF[low : low + size] @ unit_IF.T).round(12)  # equal rows are equally near
        nearest_BK = np.argsort(-cosine_BI, axis=1, kind="stable")[:, :kept]
        columns.append(nearest_BK.ravel())
        cosines.append(np.take_along_axis(cosine_BI, nearest_BK, axis=1).ravel())
    row_N, column_N = np.repeat(np.arange(n_items), kept), np.concatenate(columns)
    if weights == "equal":
        link_N = np.full(len(row_N), 1.0 / kept)
    else:
        cosine_N = np.concatenate(cosines)
        degree_I = np.bincount(row_N, weights=cosine_N, minlength=n_items)
        root_I = np.zeros(n_items)
        root_I[degree_I > 1e-12] = degree_I[degree_I > 1e-12] ** -0.5
        link_N = root_I[row_N] * cosine_N * root_I[column_N]
    return scipy.sparse.csr_array((link_N, (row_N, column_N)), shape=(n_items, n_items))
