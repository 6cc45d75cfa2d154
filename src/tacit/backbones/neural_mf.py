"""FedNCF as the multimodal papers run it: a perceptron branch and a product branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tacit.core.types import Init, Params, added_later


@dataclass(frozen=True)
class NeuralMf:
    """logit = v · [tower([p_u; q_i]) ; p'_u * q'_i] + c, tower `layers` with ReLU after each.

    A row holds q_i and q'_i side by side, a user vector p_u and p'_u, so `dim` is twice the width
    of a branch. User vectors are private, tower and output layer are shared, or with
    `scorer="private"` kept by each client, which all begin with the same ones.

    >>> sum(init.count for init in NeuralMf().shared().values())
    10945
    >>> NeuralMf(scorer="private").shared()
    {}
    """

    dim: int = 128
    layers: tuple[int, ...] = (64, 32, 16)
    scale: float = 0.1
    scorer: Literal["shared", "private"] = added_later("shared")

    @property
    def linear(self) -> tuple[str, str | None] | None:
        return None

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.scale)

    def shared(self) -> dict[str, Init]:
        return self._tower() if self.scorer == "shared" else {}

    def _tower(self) -> dict[str, Init]:
        leaves: dict[str, Init] = {}
        size = self.dim
        for number, width in enumerate(self.layers):
            spread = (2 / (size + width)) ** 0.5
            leaves[f"tower.{number}.w"] = Init((size, width), "normal", spread)
            leaves[f"tower.{number}.b"] = Init((width,))
            size = width
        size += self.dim // 2
        leaves["tower.out.w"] = Init((size,), "normal", (2 / (size + 1)) ** 0.5)
        leaves["tower.out.b"] = Init(())
        return leaves

    def private(self) -> dict[str, Init]:
        leaves = {"user": Init((self.dim,), "normal", self.scale)}
        if self.scorer == "private":
            leaves |= {name: replace(init, same=True) for name, init in self._tower().items()}
        return leaves

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        half = self.dim // 2
        user_N = p["user"][:half].expand(x_ND.shape[0], half)
        hidden = torch.cat([user_N, x_ND[:, :half]], dim=1)
        for number in range(len(self.layers)):
            hidden = torch.relu(hidden @ p[f"tower.{number}.w"] + p[f"tower.{number}.b"])
        product = p["user"][half:] * x_ND[:, half:]
        return torch.cat([hidden, product], dim=1) @ p["tower.out.w"] + p["tower.out.b"]
