"""Attention among the inputs of one item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.types import Init, Params
from tacit.items.views.view import xavier


@dataclass(frozen=True)
class AttentionView:
    """The inputs of an item attend to one another, one head; the mean of what they read.

    It looks at one item at a time; the released code attends across the items of a batch.

    >>> p = {f"{kind}.w": torch.eye(2) for kind in ("query", "key", "value")}
    >>> AttentionView().view(p, {"id": torch.ones(1, 2), "text": torch.ones(1, 2)}).tolist()
    [[1.0, 1.0]]
    """

    @property
    def name(self) -> str:
        return "attention"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        return {f"{kind}.w": xavier(width, width) for kind in ("query", "key", "value")}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        token_NMD = torch.stack(tuple(x.values()), dim=-2)
        query, key, value = (token_NMD @ p[f"{kind}.w"] for kind in ("query", "key", "value"))
        look = torch.softmax(query @ key.transpose(-1, -2) / token_NMD.shape[-1] ** 0.5, dim=-1)
        return (look @ value).mean(-2)
