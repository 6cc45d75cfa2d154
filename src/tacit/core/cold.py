"""The cold-start part: how a server makes rows for items that nobody has touched.

It sees what a server sees: the global item table and the content of the catalogue, never a history.
Shape suffixes: W warm items, C cold ones, F width of the features, D width of the table.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from tacit.core.types import Params
from tacit.parts.cold.features import Features


@runtime_checkable
class ColdStart(Protocol):
    """A generator of item rows from content. State goes in and comes out; it is the server's own,
    and no client ever sees it."""

    @property
    def features(self) -> Features:
        """What of the content it reads."""
        ...

    @property
    def noise(self) -> int:
        """How many rows of standard normal noise it wants for an item; 0 where nothing is random.
        They come from the item's own stream, so an item's row does not depend on its company."""
        ...

    @property
    def lasts(self) -> bool:
        """Whether what it learns lasts over rounds. A closed form looks at the last table alone, so
        it is fitted where rows are wanted, and nothing of it is kept."""
        ...

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        """The first leaves, optimiser state included; all of them are tensors with names."""
        ...

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        """The leaves after learning from the table that a round left on the server."""
        ...

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        """One row (C, D) for each item."""
        ...
