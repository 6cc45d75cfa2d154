"""Uploads added up on the server, for methods that speak for themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tacit.core.direct import AbsorbsBlocks
from tacit.core.types import Params
from tacit.engines.direct_data import Columns

PIECE_FLOATS = 2**22  # of uploaded rows that are added up at once: rows can be very wide


@dataclass(eq=False)
class Total:
    """The sum of the uploads that arrived, in float64."""

    n_items: int
    row_leaves: frozenset[str]
    leaves: Params = field(default_factory=dict)
    clients: int = 0

    def add(self, upload: Params, columns: Columns, reports_B: np.ndarray) -> None:
        arrived = torch.from_numpy(np.flatnonzero(reports_B))
        self.clients += len(arrived)
        if not len(arrived):
            return
        for leaf, value in upload.items():
            if leaf in self.row_leaves:
                self._add_rows(leaf, value, columns[1], columns[2] > 0, arrived)
            else:
                self._add_leaf(leaf, value[arrived].double().sum(0))

    def add_block(
        self,
        method: AbsorbsBlocks,
        shared: Params,
        upload: Params,
        columns: Columns,
        reports_B: np.ndarray,
    ) -> None:
        arrived = torch.from_numpy(np.flatnonzero(reports_B))
        self.clients += len(arrived)
        if not len(arrived):
            return
        came = {leaf: value[arrived] for leaf, value in upload.items()}
        for leaf, value in method.absorb_block(shared, columns[0][arrived], came).items():
            self._add_leaf(leaf, value.double())

    def _add_leaf(self, leaf: str, total: Tensor) -> None:
        self.leaves[leaf] = self.leaves[leaf] + total if leaf in self.leaves else total

    def _add_rows(
        self, leaf: str, value_BH: Tensor, item_BH: Tensor, real_BH: Tensor, arrived: Tensor
    ) -> None:
        shape = value_BH.shape[2:]
        if leaf not in self.leaves:
            self.leaves[leaf] = torch.zeros((self.n_items, *shape), dtype=torch.float64)
        floats = max(1, value_BH.shape[1] * shape.numel())
        for piece in arrived.split(max(1, PIECE_FLOATS // floats)):
            real = real_BH[piece]
            rows = value_BH[piece][real].double()
            self.leaves[leaf].index_add_(0, item_BH[piece][real], rows)
