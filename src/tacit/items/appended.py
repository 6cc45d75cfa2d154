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
from tacit.items.features import ID, prepared, width_of
from tacit.items.views.view import xavier


@dataclass(frozen=True)
class Appended:
    """x_i = [E_i ; W [text_i ; image_i]], each half of what the backbone reads (He and McAuley).

    `without` drops an input: zeros take its place.

    >>> Appended().row(Init((8,), "normal", 0.1)).shape
    (4,)
    """

    modalities: tuple[str, ...] = ("text", "image")
    missing: Literal["mean", "zero"] = "mean"
    placement: Literal["client", "server"] = "client"
    without: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (ID, *self.modalities)

    @property
    def reads_history(self) -> bool:
        return False

    def row(self, read: Init) -> Init:
        for name in self.without:
            if name not in self.inputs:
                raise TacitError(
                    f"{name!r} cannot be taken away here; the inputs are {', '.join(self.inputs)}."
                )
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

    def projected(self, p: Params, id_ND: Tensor) -> dict[str, Tensor]:
        """Each input of an item as it enters; the content half is the sum of its modalities."""
        x, first = {ID: self._kept(ID, id_ND)}, 0
        for name in self.modalities:
            value_NF = self._kept(name, p[CONTENT + name])
            last = first + value_NF.shape[-1]
            x[name] = value_NF @ p["project.w"][first:last]
            first = last
        return x

    def views(self, p: Params, id_ND: Tensor) -> Tensor:
        parts = [self._kept(name, p[CONTENT + name]) for name in self.modalities]
        content = torch.cat(parts, dim=-1)
        return torch.cat([self._kept(ID, id_ND), content @ p["project.w"]], dim=-1)

    def _kept(self, name: str, value: Tensor) -> Tensor:
        return torch.zeros_like(value) if name in self.without else value

    def mix(self, p: Params, view_NW: Tensor, past: Past | None) -> Tensor:
        return view_NW

    def encode(self, p: Params, id_ND: Tensor, past: Past | None = None) -> Tensor:
        return self.mix(p, self.views(p, id_ND), past)
