"""NCF as PFedRec's central bar: a perceptron 64-32-16-8-1 over [user row; item row].

It is the branch of NeuMF that has no product of rows. Tables begin at normal(0, 0.01), hidden
layers at Glorot's uniform law, the output at LeCun's. How it is trained stands in
`central/pairs.py`; rate and epochs are ours, the paper prints neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tacit.central.pairs import TABLE_SCALE
from tacit.central.tower import TowerModel
from tacit.core.types import Init, Params
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry


def hidden_leaves(width: int, layers: tuple[int, ...]) -> dict[str, Init]:
    """Weights and biases of hidden layers, from an input of `width`.

    >>> {name: init.shape for name, init in hidden_leaves(4, (2,)).items()}
    {'mlp.w0': (4, 2), 'mlp.b0': (2,)}
    """
    if not layers or min(layers) < 1:
        raise TacitError(f"layers is {list(layers)}; it must list the widths of hidden layers.")
    leaves: dict[str, Init] = {}
    for number, out in enumerate(layers):
        leaves[f"mlp.w{number}"] = Init((width, out), "uniform", (6 / (width + out)) ** 0.5)
        leaves[f"mlp.b{number}"] = Init((out,), "zeros")
        width = out
    return leaves


def output_leaves(width: int) -> dict[str, Init]:
    """Weights and bias of the logit.

    >>> output_leaves(3)["out.w"].scale
    1.0
    """
    return {"out.w": Init((width,), "uniform", (3 / width) ** 0.5), "out.b": Init((), "zeros")}


def climb(p: Params, user: Tensor, item: Tensor, n_layers: int) -> Tensor:
    """The last hidden layer over [user; item].

    The first layer is split into the user's half and the item's, which is the same number: rows
    that broadcast are then multiplied once each, and never laid side by side for all pairs.

    >>> p = {"mlp.w0": torch.eye(2), "mlp.b0": torch.zeros(2)}
    >>> climb(p, torch.tensor([[3.0]]), torch.tensor([[-4.0]]), 1).tolist()
    [[3.0, 0.0]]
    """
    weight, dim = p["mlp.w0"], user.shape[-1]
    hidden = torch.relu(user @ weight[:dim] + (item @ weight[dim:] + p["mlp.b0"]))
    for number in range(1, n_layers):
        hidden = torch.relu(hidden @ p[f"mlp.w{number}"] + p[f"mlp.b{number}"])
    return hidden


@dataclass(frozen=True)
class Ncf(TowerModel):
    """Neural collaborative filtering, perceptron only; `layers` are the hidden widths.

    >>> Ncf().layers
    (32, 16, 8)
    """

    PERCEPTRON: ClassVar[tuple[str, str]] = ("user", "items")

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden_leaves(2 * self.dim, self.layers)

    def user_tables(self) -> dict[str, Init]:
        return {"user": Init((self.dim,), "normal", TABLE_SCALE)}

    def item_tables(self) -> dict[str, Init]:
        return {"items": Init((self.dim,), "normal", TABLE_SCALE)}

    def tower(self) -> dict[str, Init]:
        return hidden_leaves(2 * self.dim, self.layers) | output_leaves(self.layers[-1])

    def logit(self, p: Params) -> Tensor:
        hidden = climb(p, p["user"], p["items"], len(self.layers))
        return hidden @ p["out.w"] + p["out.b"]


METHODS["ncf"] = Entry(
    build=Ncf,
    summary="central bar: perceptron over user and item rows",
    rounds=30,
    protocol="pfedrec",
)
