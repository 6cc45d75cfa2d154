"""An item is its row of the table, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tacit.core.types import Init, Params


@dataclass(frozen=True)
class IdOnly:
    """The neutral encoder: what the table holds is what the scorer sees.

    >>> import torch
    >>> IdOnly().encode({}, torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    def shared(self) -> dict[str, Init]:
        return {}

    def private(self) -> dict[str, Init]:
        return {}

    def encode(self, p: Params, id_ND: Tensor) -> Tensor:
        return id_ND
