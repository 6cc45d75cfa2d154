"""PFedRec's scorer as a perceptron: private layers over the item row, and no user vector."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from tacit.backbones.mlp import check_layers, mlp_layers, upper_layers
from tacit.core.types import Init, Params


@dataclass(frozen=True)
class MlpHead:
    """logit = MLP_u(x); 32-16-1 is FedRKG's copy of PFedRec. All clients begin with the same one.

    >>> sorted(MlpHead(dim=4, layers=(2, 1)).private())
    ['mlp.b0', 'mlp.b1', 'mlp.w0', 'mlp.w1']
    """

    dim: int = 32
    layers: tuple[int, ...] = (16, 1)
    item_scale: float = 1.0

    def __post_init__(self) -> None:
        check_layers(self.layers)

    @property
    def linear(self) -> None:
        return None

    def item_init(self) -> Init:
        return Init((self.dim,), "normal", self.item_scale)

    def shared(self) -> dict[str, Init]:
        return {}

    def private(self) -> dict[str, Init]:
        layers = mlp_layers(self.dim, self.layers)
        return {name: replace(init, same=True) for name, init in layers.items()}

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        return upper_layers(p, x_ND @ p["mlp.w0"] + p["mlp.b0"], len(self.layers))
