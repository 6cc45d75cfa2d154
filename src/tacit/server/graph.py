"""GPFedRec's server: a graph of users over their item tables, and a table for each user from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.core.parts import Meeting
from tacit.core.types import ITEMS, OWN_ITEMS, Init, Params
from tacit.errors import TacitError
from tacit.server import neighbours_cpu, neighbours_matrix
from tacit.sync.proximal import GUIDE


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

    def links(self, similarity_PP: Tensor) -> Tensor:
        """The graph: who is a neighbour of whom; nobody is without one."""
        size = len(similarity_PP)
        if self.neighbours is not None:
            nearest = similarity_PP.topk(min(self.neighbours, size), dim=1).indices
            linked_PP = torch.zeros_like(similarity_PP, dtype=torch.bool).scatter_(1, nearest, True)
        else:
            linked_PP = similarity_PP > self.threshold * similarity_PP.mean()
        alone_P = ~linked_PP.any(1)
        linked_PP[alone_P, alone_P] = True
        return linked_PP

    def weights(self, similarity_PP: Tensor) -> Tensor:
        """Each row has equal weights on the user's neighbours, and sums to 1."""
        linked_PP = self.links(similarity_PP).to(similarity_PP)
        return linked_PP / linked_PP.sum(1, keepdim=True)

    def similarity_of(self, flat_PF: Tensor) -> Tensor:
        return self._similarity(flat_PF, torch.arange(len(flat_PF)))

    def _similarity(self, flat_UF: Tensor, user_P: Tensor) -> Tensor:
        if flat_UF.device.type == "cpu":
            product_PP = torch.from_numpy(neighbours_cpu.products(flat_UF.numpy(), user_P.numpy()))
        else:
            product_PP = neighbours_matrix.products(flat_UF, user_P)
        norm_P = product_PP.diagonal().sqrt().clamp(min=1e-30)
        cosine_PP = product_PP / (norm_P[:, None] * norm_P)
        return cosine_PP if self.similarity == "cosine" else 1 - cosine_PP

    def meet(self, table_PID: Tensor, shared: Params, generator: np.random.Generator) -> Meeting:
        private = {OWN_ITEMS: table_PID, GUIDE: torch.empty_like(table_PID)}
        leaves = self.meet_in_place(private, torch.arange(len(table_PID)), shared, generator)
        return Meeting(leaves, {GUIDE: private[GUIDE]})

    def meet_in_place(
        self, private: Params, user_P: Tensor, shared: Params, generator: np.random.Generator
    ) -> Params:
        flat_UF, guide_UF = private[OWN_ITEMS].flatten(1), private[GUIDE].flatten(1)
        linked_PP = self.links(self._similarity(flat_UF, user_P))
        start_F = shared[ITEMS].flatten()
        # of changes and not of tables: where nobody moved, nothing moves by a rounding
        if flat_UF.device.type == "cpu":
            global_F = torch.from_numpy(
                neighbours_cpu.mean_changes(
                    linked_PP.numpy(),
                    user_P.numpy(),
                    flat_UF.numpy(),
                    start_F.numpy(),
                    self.layers,
                    guide_UF.numpy(),
                )
            )
        else:
            global_F = neighbours_matrix.mean_changes(
                linked_PP, user_P, flat_UF, start_F, self.layers, guide_UF
            )
        return {ITEMS: global_F.view_as(shared[ITEMS])}
