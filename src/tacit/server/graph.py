"""GPFedRec's server: a graph of users over their item tables, and a table for each user from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.core.parts import Meeting
from tacit.core.types import ITEMS, Init, Params
from tacit.errors import TacitError
from tacit.sync.proximal import GUIDE

_COLUMNS = 4096  # of the flattened tables at a time: one table set and the result, no third


@dataclass(frozen=True)
class GraphMean:
    """r_u = mean of the tables of u's neighbours, `layers` times; G = mean of all r_u.

    u and v are neighbours where the cosine of their flattened tables exceeds `threshold` times the
    mean of the whole similarity matrix; a user is its own neighbour by the same rule, and has only
    itself where nobody is left. With `neighbours` they are that many most similar ones instead.
    `similarity="distance"` is the released code by its right name: 1 − cosine taken for a
    similarity, which links the most different users and never a user to itself.

    >>> GraphMean().floats_down(Init((10, 4)))
    80
    """

    threshold: float = 1.0
    similarity: Literal["cosine", "distance"] = "cosine"
    neighbours: int | None = None
    layers: int = 1

    def __post_init__(self) -> None:
        if self.neighbours is not None and self.neighbours < 1:
            raise TacitError(f"server.neighbours is {self.neighbours}; it must be at least 1.")
        if self.layers < 1:
            raise TacitError(f"server.layers is {self.layers}; it must be at least 1.")

    def shared(self, table: Init) -> dict[str, Init]:
        return {}

    def private(self, table: Init) -> dict[str, Init]:
        return {GUIDE: replace(table, same=True, like=ITEMS)}

    def floats_down(self, table: Init) -> int:
        return 2 * table.count  # the global table, and the guide

    def weights(self, similarity_PP: Tensor) -> Tensor:
        """The graph: each row has equal weights on the user's neighbours, and sums to 1."""
        size = len(similarity_PP)
        if self.neighbours is not None:
            nearest = similarity_PP.topk(min(self.neighbours, size), dim=1).indices
            linked_PP = torch.zeros_like(similarity_PP).scatter_(1, nearest, 1.0)
        else:
            linked_PP = (similarity_PP > self.threshold * similarity_PP.mean()).to(similarity_PP)
        alone_P = linked_PP.sum(1) == 0
        linked_PP[alone_P, alone_P] = 1.0
        return linked_PP / linked_PP.sum(1, keepdim=True)

    def similarity_of(self, flat_PF: Tensor) -> Tensor:
        product_PP = flat_PF @ flat_PF.T
        norm_P = product_PP.diagonal().sqrt().clamp(min=1e-30)
        cosine_PP = product_PP / (norm_P[:, None] * norm_P)
        return cosine_PP if self.similarity == "cosine" else 1 - cosine_PP

    def meet(self, table_PID: Tensor, shared: Params, generator: np.random.Generator) -> Meeting:
        flat_PF = table_PID.flatten(1)
        weight_PP = self.weights(self.similarity_of(flat_PF))
        # of changes and not of tables: where nobody moved, nothing moves by a rounding
        start_F = shared[ITEMS].flatten()
        guide_PF, global_F = torch.empty_like(flat_PF), torch.empty_like(start_F)
        for begin in range(0, len(start_F), _COLUMNS):
            here = slice(begin, begin + _COLUMNS)
            change_PF = flat_PF[:, here] - start_F[here]
            for _ in range(self.layers):
                change_PF = weight_PP @ change_PF
            guide_PF[:, here] = start_F[here] + change_PF
            global_F[here] = start_F[here] + change_PF.mean(0)
        return Meeting(
            shared={ITEMS: global_F.view_as(shared[ITEMS])},
            private={GUIDE: guide_PF.view_as(table_PID)},
        )
