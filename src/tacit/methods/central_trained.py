"""Central baselines trained by epochs: MF, NCF and NeuMF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tacit.central.factor_kernels import mf_epoch
from tacit.central.pairs import TABLE_SCALE, PairModel
from tacit.central.rows import StepRule, is_written_down, table_of
from tacit.central.samples import PairSamples
from tacit.central.tower import TowerModel
from tacit.core.capabilities import defines
from tacit.core.optim import Sgd
from tacit.core.registry import register
from tacit.core.types import Initializer, Params
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry

# Adam is our choice for all three, plain descent an option; its rate is the largest of FedRKG's.
PRESETS = {"paper": {}, "sgd": {"optimiser": Sgd(0.1)}}

# MF: matrix factorisation with all histories in one place; PFedRec's and FedRKG's central baseline.
#
# logit = p_u · q_i, without biases; width 32, batch 256, 4 negatives. How it is trained stands in
# `central/pairs.py`. PFedRec prints neither optimiser nor epochs. FedRKG takes plain descent at the
# best of four rates, for up to 1,000 epochs. Adam at 1e-3 for 50 is ours; preset `sgd` is descent.


@register("mf")
@dataclass(frozen=True)
class Mf(PairModel):
    """Matrix factorisation under binary cross-entropy; an epoch is one compiled pass.

    >>> Mf(dim=8).optimiser.rate
    0.001
    """

    def user_tables(self) -> dict[str, Initializer]:
        return {"user": Initializer((self.dim,), "normal", TABLE_SCALE)}

    def item_tables(self) -> dict[str, Initializer]:
        return {"items": Initializer((self.dim,), "normal", TABLE_SCALE)}

    def logit(self, p: Params) -> Tensor:
        return (p["user"] * p["items"]).sum(-1)

    def descend(self, parameters: Params, samples: PairSamples, step_rule: StepRule) -> float:
        """What `PairModel.descend` does, with gradients by hand, for the very model and optimisers
        that they were written for."""
        if self.kernel is None:
            return super().descend(parameters, samples, step_rule)
        users, items = (table_of(parameters, name) for name in ("user", "items"))
        return float(mf_epoch(users, items, samples.arrays, self.batch, step_rule.step))

    @property
    def kernel(self) -> str | None:
        return "mf" if self._wrote_all and is_written_down(self.optimiser) else None

    @property
    def _wrote_all(self) -> bool:
        """Whether the fast ways belong to the logit: a subclass may score in a way of its own."""
        return defines(self, "logit", "descend", "score_rows")

    def score_rows(self, parameters: Params, rows: Params) -> np.ndarray:
        if not self._wrote_all:
            return super().score_rows(parameters, rows)
        return np.asarray((rows["user"] @ parameters["items"].T).numpy())


METHODS["mf"] = Entry(
    build=Mf,
    summary="central baseline: matrix factorisation with Adam, all histories in one place",
    rounds=50,
    protocol="pfedrec",
    presets=PRESETS,
)


# NCF as PFedRec's central baseline: a perceptron 64-32-16-8-1 over [user row; item row].
#
# It is the branch of NeuMF that has no product of rows. Tables begin at normal(0, 0.01), hidden
# layers at Glorot's uniform initializer, the output at LeCun's. How it is trained stands in
# `central/pairs.py`; Adam, its rate and the epochs are ours, the paper prints none of them.


def hidden_parameters(width: int, layers: tuple[int, ...]) -> dict[str, Initializer]:
    """Weights and biases of hidden layers, from an input of `width`.

    >>> {name: init.shape for name, init in hidden_parameters(4, (2,)).items()}
    {'mlp.w0': (4, 2), 'mlp.b0': (2,)}
    """
    if not layers or min(layers) < 1:
        raise TacitError(f"layers is {list(layers)}; it must list the widths of hidden layers.")
    parameters: dict[str, Initializer] = {}
    for number, out in enumerate(layers):
        parameters[f"mlp.w{number}"] = Initializer(
            (width, out), "uniform", (6 / (width + out)) ** 0.5
        )
        parameters[f"mlp.b{number}"] = Initializer((out,), "zeros")
        width = out
    return parameters


def output_parameters(width: int) -> dict[str, Initializer]:
    """Weights and bias of the logit.

    >>> output_parameters(3)["out.w"].scale
    1.0
    """
    return {
        "out.w": Initializer((width,), "uniform", (3 / width) ** 0.5),
        "out.b": Initializer((), "zeros"),
    }


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


@register("ncf")
@dataclass(frozen=True)
class Ncf(TowerModel):
    """Neural collaborative filtering, perceptron only; `layers` are the hidden widths.

    >>> Ncf().layers
    (32, 16, 8)
    """

    PERCEPTRON: ClassVar[tuple[str, str]] = ("user", "items")

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden_parameters(2 * self.dim, self.layers)

    def user_tables(self) -> dict[str, Initializer]:
        return {"user": Initializer((self.dim,), "normal", TABLE_SCALE)}

    def item_tables(self) -> dict[str, Initializer]:
        return {"items": Initializer((self.dim,), "normal", TABLE_SCALE)}

    def tower(self) -> dict[str, Initializer]:
        return hidden_parameters(2 * self.dim, self.layers) | output_parameters(self.layers[-1])

    def logit(self, p: Params) -> Tensor:
        hidden = climb(p, p["user"], p["items"], len(self.layers))
        return hidden @ p["out.w"] + p["out.b"]


METHODS["ncf"] = Entry(
    build=Ncf,
    summary="central baseline: perceptron over user and item rows, with Adam",
    rounds=30,
    protocol="pfedrec",
    presets=PRESETS,
)


# NeuMF (He et al., 2017) as FedRKG's central baseline: a product of rows beside a perceptron.
#
# The two branches have tables of their own: p ⊙ q of width 32 and a perceptron 64-32-16-8; both
# ends side by side give the logit, with a bias. The width of the product is our reading of FedRKG;
# the original has 8. No pre-training. How it is trained stands in `central/pairs.py`. FedRKG takes
# plain descent at the best of four rates and does not say which; Adam at 1e-3 is ours, and the
# preset `sgd` is descent.


@register("neumf")
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
        hidden_parameters(2 * self.dim, self.layers)
        if self.product < 1:
            raise TacitError(f"product is {self.product}; it must be at least 1, or use ncf.")

    def user_tables(self) -> dict[str, Initializer]:
        return {
            "user.product": Initializer((self.product,), "normal", TABLE_SCALE),
            "user.mlp": Initializer((self.dim,), "normal", TABLE_SCALE),
        }

    def item_tables(self) -> dict[str, Initializer]:
        return {
            "items.product": Initializer((self.product,), "normal", TABLE_SCALE),
            "items.mlp": Initializer((self.dim,), "normal", TABLE_SCALE),
        }

    def tower(self) -> dict[str, Initializer]:
        ends = self.product + self.layers[-1]
        return hidden_parameters(2 * self.dim, self.layers) | output_parameters(ends)

    def logit(self, p: Params) -> Tensor:
        hidden = climb(p, p["user.mlp"], p["items.mlp"], len(self.layers))
        # w · [product; hidden] in two halves: nothing is laid side by side for all pairs
        weight = p["out.w"]
        product = (p["user.product"] * weight[: self.product] * p["items.product"]).sum(-1)
        return product + hidden @ weight[self.product :] + p["out.b"]


METHODS["neumf"] = Entry(
    build=NeuMf,
    summary="central baseline: product of rows beside a perceptron, with Adam",
    rounds=30,
    protocol="fedrkg",
    presets=PRESETS,
)
