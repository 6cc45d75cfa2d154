"""An item is its row of the table, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tacit.core.parts import Past
from tacit.core.types import Init, Params
from tacit.data.modalities import Modalities


@dataclass(frozen=True)
class IdOnly:
    """The neutral encoder: what the table holds is what the scorer sees.

    >>> import torch
    >>> IdOnly().encode({}, torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    @property
    def reads_history(self) -> bool:
        return False

    def row(self, read: Init) -> Init:
        return read

    def shared(self, width: int, content: Modalities | None) -> dict[str, Init]:
        return {}

    def private(self, width: int, content: Modalities | None) -> dict[str, Init]:
        return {}

    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        return {}

    def encode(self, p: Params, id_ND: Tensor, past: Past | None = None) -> Tensor:
        return id_ND
