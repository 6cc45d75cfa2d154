"""Models of pairs with a perceptron over [user row; item row], and perhaps products of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tacit.central.lanes import LANES
from tacit.central.pairs import TOWER, PairModel
from tacit.central.rows import Law, arrays_of, is_written_down
from tacit.central.samples import Samples
from tacit.central.tower_kernel import tower_epoch
from tacit.central.tower_scores import tower_scores
from tacit.core.capabilities import defines
from tacit.core.types import Params


@dataclass(frozen=True)
class TowerModel(PairModel):
    """What NCF and NeuMF have in common: an epoch is one compiled pass, and so are scores.

    The tower is mlp.w0, mlp.b0, mlp.w1, ..., out.w over [products; last hidden layer], out.b. A
    class that names its tables (`PERCEPTRON`) beside its own `logit` says that this is its logit;
    a subclass of it runs on the general path.
    """

    layers: tuple[int, ...] = (32, 16, 8)

    PERCEPTRON: ClassVar[tuple[str, str]]  # the tables of users and items
    PRODUCTS: ClassVar[tuple[str, str] | None] = None

    @property
    def n_products(self) -> int:
        return 0 if self.PRODUCTS is None else self.user_tables()[self.PRODUCTS[0]].count

    @property
    def is_tower(self) -> bool:
        """Whether the logit is the one that kernels have written down."""
        return defines(self, "PERCEPTRON", "logit", "tower", "user_tables", "item_tables")

    @property
    def kernel(self) -> str | None:
        return "tower" if self.is_tower and is_written_down(self.optimiser) else None

    def descend(self, leaves: Params, samples: Samples, law: Law) -> float:
        """What `PairModel.descend` does, with gradients by hand."""
        if self.kernel is None:
            return super().descend(leaves, samples, law)
        users, items = (arrays_of(leaves, leaf) for leaf in self.PERCEPTRON)
        nothing = np.empty((0, 0), users[0].dtype)
        product_users = product_items = (nothing, nothing, nothing, nothing.ravel())
        if self.PRODUCTS is not None:
            product_users, product_items = (arrays_of(leaves, leaf) for leaf in self.PRODUCTS)
        return float(
            tower_epoch(
                arrays_of(leaves, TOWER),
                users,
                items,
                product_users,
                product_items,
                np.array([2 * self.dim, *self.layers]),
                samples.user_N,
                samples.item_N,
                samples.label_N,
                self.batch,
                (law.adam, law.beta1, law.beta2, law.constants),
            )
        )

    def score_rows(self, leaves: Params, rows: Params) -> np.ndarray:
        """(B, I) logits of B users given by their rows; each half of the first layer once."""
        if not self.is_tower:
            return super().score_rows(leaves, rows)
        p = self._unpacked({TOWER: leaves[TOWER]})
        user, items = rows[self.PERCEPTRON[0]], leaves[self.PERCEPTRON[1]]
        user_BJ = user @ p["mlp.w0"][: self.dim] + p["mlp.b0"]
        item_JI = _in_lanes(items @ p["mlp.w0"][self.dim :])
        product_user_BD, product_item_DI = user_BJ[:, :0], item_JI[:0]
        if self.PRODUCTS is not None:
            weight_D = p["out.w"][: self.n_products]
            product_user_BD = rows[self.PRODUCTS[0]] * weight_D
            product_item_DI = _in_lanes(leaves[self.PRODUCTS[1]])
        p["out.w"] = p["out.w"][self.n_products :]
        upper = [p[leaf].flatten() for leaf in self.tower() if leaf not in ("mlp.w0", "mlp.b0")]
        out_BI = np.empty((len(user), len(items)), user_BJ.numpy().dtype)
        tower_scores(
            torch.cat(upper).numpy(),
            np.array(self.layers),
            user_BJ.numpy(),
            item_JI.numpy(),
            product_user_BD.contiguous().numpy(),
            product_item_DI.numpy(),
            out_BI,
        )
        return out_BI


def _in_lanes(row_ID: Tensor) -> Tensor:
    """(D, I), with empty columns up to a multiple of LANES."""
    n_items, width = row_ID.shape
    column_DI = row_ID.new_zeros((width, -(-n_items // LANES) * LANES))
    column_DI[:, :n_items] = row_ID.T
    return column_DI
