"""VBPR's item: the id row with projected content beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.core.parts import Past
from tacit.core.types import CONTENT, Init, Params
from tacit.data.modalities import Modalities
from tacit.errors import TacitError
from tacit.items.features import prepared, width_of
from tacit.items.views.view import xavier


@dataclass(frozen=True)
class Appended:
    """x_i = [E_i ; W [text_i ; image_i]], each half of what the backbone reads (He and McAuley).

    >>> Appended().row(Init((8,), "normal", 0.1)).shape
    (4,)
    """

    modalities: tuple[str, ...] = ("text", "image")
    missing: Literal["mean", "zero"] = "mean"
    placement: Literal["client", "server"] = "client"

    @property
    def reads_history(self) -> bool:
        return False

    def row(self, read: Init) -> Init:
        if read.shape[-1] % 2:
            raise TacitError(f"VBPR's items have two halves; backbone.dim is {read.shape[-1]}.")
        return Init((read.shape[-1] // 2,), read.law, read.scale)

    def view_width(self, width: int) -> int:
        return width

    def shared(self, width: int, content: Modalities | None) -> dict[str, Init]:
        size = sum(width_of(name, content) for name in self.modalities)
        return {"project.w": xavier(size, width // 2)}

    def private(self, width: int, content: Modalities | None) -> dict[str, Init]:
        return {}

    def mixing(self, width: int) -> dict[str, Init]:
        return {}

    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        return prepared(content, self.modalities, self.missing)

    def views(self, p: Params, id_ND: Tensor) -> Tensor:
        content = torch.cat([p[CONTENT + name] for name in self.modalities], dim=-1)
        return torch.cat([id_ND, content @ p["project.w"]], dim=-1)

    def mix(self, p: Params, view_NW: Tensor, past: Past | None) -> Tensor:
        return view_NW

    def encode(self, p: Params, id_ND: Tensor, past: Past | None = None) -> Tensor:
        return self.views(p, id_ND)
