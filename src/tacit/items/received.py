"""An item as a client receives it: its views are made, only the mixing is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tacit.core.parts import Past, Viewed
from tacit.core.types import Init, Params
from tacit.data.modalities import Modalities


@dataclass(frozen=True)
class Received:
    """The clients' half of an encoder whose views the server makes and sends: a row of the table
    holds the views of an item. Nobody writes it into a method; `Algorithm.lifted` does.

    >>> from tacit.items.mixture import Mixture
    >>> Received(Mixture(width=4)).row(Init((4,))).shape
    (12,)
    """

    encoder: Viewed

    @property
    def reads_history(self) -> bool:
        return self.encoder.reads_history

    def row(self, read: Init) -> Init:
        return Init((self.encoder.view_width(read.shape[-1]),))

    def shared(self, width: int, content: Modalities | None) -> dict[str, Init]:
        return self.encoder.mixing(width)

    def private(self, width: int, content: Modalities | None) -> dict[str, Init]:
        return self.encoder.private(width, content)

    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        return {}

    def encode(self, p: Params, id_ND: Tensor, past: Past | None = None) -> Tensor:
        return self.encoder.mix(p, id_ND, past)
