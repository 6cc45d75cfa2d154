"""A server that reads single item tables, and adds up whatever else its clients share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.parts import Meeting, TableRule
from tacit.core.types import Init, Params
from tacit.server.graph import GraphMean
from tacit.server.steps import ServerSteps


@dataclass(frozen=True)
class TablesBeside:
    """`tables` meets the personal item tables, as it does alone. What else is shared (the operators
    that fuse an item from id and content) arrives as a sum and is stepped by `steps`: along the
    mean gradient where devices hold it still, else by the mean change. Clients count alike, as
    they do where tables are read.

    >>> TablesBeside().floats_down(Init((10, 4)))
    80
    >>> TablesBeside().weight(7)
    1.0
    """

    tables: TableRule = GraphMean()
    steps: ServerSteps = ServerSteps()

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "each"

    def shared(self, table: Init) -> dict[str, Init]:
        return self.tables.shared(table)

    def private(self, table: Init) -> dict[str, Init]:
        return self.tables.private(table)

    def floats_down(self, table: Init) -> int:
        """Of the tables alone; what else is shared comes down as it goes up."""
        return self.tables.floats_down(table)

    def meet(self, table_PID: Tensor, shared: Params, generator: np.random.Generator) -> Meeting:
        return self.tables.meet(table_PID, shared, generator)

    def optimiser(self, is_table: bool) -> Optimiser:
        return self.steps.optimiser(is_table)

    def weight(self, n_positives: int) -> float:
        return 1.0

    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray:
        return self.steps.step(value, total, weight)
