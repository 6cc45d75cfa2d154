"""FedMF's scorer: the dot product of a private user vector and an item row."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tacit.core.types import Init, Params


@dataclass(frozen=True)
class DotProduct:
    """logit = e_u · x. `user_scale`, `item_scale`: standard deviations of the first values.

    >>> import torch
    >>> DotProduct(dim=2).score({"user": torch.tensor([1.0, 2.0])}, torch.eye(2)).tolist()
    [1.0, 2.0]
    """

    dim: int = 32
    user_scale: float = 0.1
    item_scale: float = 0.1

    @property
    def linear(self) -> tuple[str, str | None]:
        return "user", None

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Init]:
        return {}

    def private(self) -> dict[str, Init]:
        return {"user": Init((self.dim,), "normal", self.user_scale)}

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        return x_ND @ p["user"]
