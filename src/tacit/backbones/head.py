"""PFedRec's scorer: a private linear layer over the item row, and no user vector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tacit.core.types import Init, Params


@dataclass(frozen=True)
class LinearHead:
    """logit = w_u · x + b_u. All clients begin with the same head, U(±1/√D), as released.

    With `user_vector` the head sees [e_u; x], as an option of FedRKG's released code: the new half
    is the same for all items, so it only shifts a user's logits.

    >>> import torch
    >>> p = {"head.w": torch.tensor([1.0, 2.0]), "head.b": torch.tensor(0.5)}
    >>> LinearHead(dim=2).score(p, torch.eye(2)).tolist()
    [1.5, 2.5]
    """

    dim: int = 32
    item_scale: float = 1.0
    user_vector: bool = False

    @property
    def linear(self) -> tuple[str, str | None] | None:
        return None if self.user_vector else ("head.w", "head.b")

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Init]:
        return {}

    def private(self) -> dict[str, Init]:
        bound = self.dim**-0.5
        leaves = {
            "head.w": Init((self.dim,), "uniform", bound, same=True),
            "head.b": Init((), "uniform", bound, same=True),
        }
        if self.user_vector:
            leaves["head.v"] = Init((self.dim,), "uniform", bound, same=True)
            leaves["user"] = Init((self.dim,), "normal", self.item_scale)
        return leaves

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        logit_N = x_ND @ p["head.w"] + p["head.b"]
        return logit_N + p["user"] @ p["head.v"] if self.user_vector else logit_N
