"""MF: matrix factorisation with all histories in one place; PFedRec's and FedRKG's central bar.

logit = p_u · q_i, without biases; width 32, batch 256, 4 negatives. How it is trained stands in
`central/pairs.py`. The papers print neither their optimiser's rate nor how many epochs they ran;
Adam at 1e-3 is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tacit.central.mf_kernel import mf_epoch
from tacit.central.pairs import TABLE_SCALE, PairModel
from tacit.central.rows import Law, arrays_of, is_written_down
from tacit.central.samples import Samples
from tacit.core.types import Init, Params
from tacit.methods.entry import METHODS, Entry


@dataclass(frozen=True)
class Mf(PairModel):
    """Matrix factorisation under binary cross-entropy; an epoch is one compiled pass.

    >>> Mf(dim=8).optimiser.rate
    0.001
    """

    def user_tables(self) -> dict[str, Init]:
        return {"user": Init((self.dim,), "normal", TABLE_SCALE)}

    def item_tables(self) -> dict[str, Init]:
        return {"items": Init((self.dim,), "normal", TABLE_SCALE)}

    def tower(self) -> dict[str, Init]:
        return {}

    def logit(self, p: Params) -> Tensor:
        return (p["user"] * p["items"]).sum(-1)

    def descend(self, leaves: Params, samples: Samples, law: Law) -> float:
        """What `PairModel.descend` does, with gradients by hand, for the very model and optimisers
        that they were written for."""
        if self.kernel is None:
            return super().descend(leaves, samples, law)
        return float(
            mf_epoch(
                *arrays_of(leaves, "user"),
                *arrays_of(leaves, "items"),
                samples.user_N,
                samples.item_N,
                samples.label_N,
                self.batch,
                law.adam,
                law.beta1,
                law.beta2,
                law.constants,
            )
        )

    @property
    def kernel(self) -> str | None:
        return "mf" if type(self) is Mf and is_written_down(self.optimiser) else None

    def score_rows(self, leaves: Params, rows: Params) -> np.ndarray:
        if type(self) is not Mf:
            return super().score_rows(leaves, rows)
        return np.asarray((rows["user"] @ leaves["items"].T).numpy())


METHODS["mf"] = Entry(
    build=Mf,
    summary="central bar: matrix factorisation, all histories in one place",
    rounds=50,
    protocol="pfedrec",
)
