"""PFedRec's scorer: a private linear layer over the item row, and no user vector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tacit.core.types import Init, Params


@dataclass(frozen=True)
class LinearHead:
    """logit = w_u · x + b_u. All clients begin with the same head, U(±1/√D), as released.

    >>> import torch
    >>> p = {"head.w": torch.tensor([1.0, 2.0]), "head.b": torch.tensor(0.5)}
    >>> LinearHead(dim=2).score(p, torch.eye(2)).tolist()
    [1.5, 2.5]
    """

    dim: int = 32
    item_scale: float = 1.0

    @property
    def linear(self) -> tuple[str, str | None]:
        return "head.w", "head.b"

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Init]:
        return {}

    def private(self) -> dict[str, Init]:
        bound = self.dim**-0.5
        return {
            "head.w": Init((self.dim,), "uniform", bound, same=True),
            "head.b": Init((), "uniform", bound, same=True),
        }

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        return x_ND @ p["head.w"] + p["head.b"]
