"""NeuMF (He et al., 2017) as FedRKG's central bar: a product of rows beside a perceptron.

The two branches have tables of their own: p ⊙ q of width 32 and a perceptron 64-32-16-8; both ends
side by side give the logit, with a bias. The width of the product is our reading of FedRKG; the
original has 8. No pre-training. How it is trained stands in `central/pairs.py`; FedRKG searches
plain descent's rate on a grid that it does not resolve, so Adam at 1e-3 is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tacit.central.pairs import TABLE_SCALE
from tacit.central.tower import TowerModel
from tacit.core.types import Init, Params
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry
from tacit.methods.ncf import climb, hidden_leaves, output_leaves


@dataclass(frozen=True)
class NeuMf(TowerModel):
    """NeuMF; `dim` is the width of the perceptron's tables, `product` that of the other two.

    >>> NeuMf(product=8).tower()["out.w"].shape
    (16,)
    """

    product: int = 32

    PERCEPTRON: ClassVar[tuple[str, str]] = ("user.mlp", "items.mlp")
    PRODUCTS: ClassVar[tuple[str, str] | None] = ("user.product", "items.product")

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden_leaves(2 * self.dim, self.layers)
        if self.product < 1:
            raise TacitError(f"product is {self.product}; it must be at least 1, or use ncf.")

    def user_tables(self) -> dict[str, Init]:
        return {
            "user.product": Init((self.product,), "normal", TABLE_SCALE),
            "user.mlp": Init((self.dim,), "normal", TABLE_SCALE),
        }

    def item_tables(self) -> dict[str, Init]:
        return {
            "items.product": Init((self.product,), "normal", TABLE_SCALE),
            "items.mlp": Init((self.dim,), "normal", TABLE_SCALE),
        }

    def tower(self) -> dict[str, Init]:
        ends = self.product + self.layers[-1]
        return hidden_leaves(2 * self.dim, self.layers) | output_leaves(ends)

    def logit(self, p: Params) -> Tensor:
        hidden = climb(p, p["user.mlp"], p["items.mlp"], len(self.layers))
        # w · [product; hidden] in two halves: nothing is laid side by side for all pairs
        weight = p["out.w"]
        product = (p["user.product"] * weight[: self.product] * p["items.product"]).sum(-1)
        return product + hidden @ weight[self.product :] + p["out.b"]


METHODS["neumf"] = Entry(
    build=NeuMf,
    summary="central bar: product of rows beside a perceptron",
    rounds=30,
    protocol="fedrkg",
)
