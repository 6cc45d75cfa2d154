"""FedSpectral under a claim of privacy (ours): few directions, few rounds, heard items alone.

After noisy counts (`counts_first.py`) the rounds are those of `fedspectral`: with an orthonormal
basis V of the heard items and x / |x| for a client's row over them, a client sends x (x^T V), which
has at most norm 1, times its part of the norm. The server takes the Ritz vectors of V, sorted by
Ritz value and multiplied once more, and ranks with the leading half.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.algorithm import Bound, ClientData
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.errors import TacitError, shown
from tacit.methods.counts_first import COUNTS, ITEM_WEIGHT, CountsFirst, scaled

BASIS = "basis"


@register("private_spectrum")
@dataclass(frozen=True)
class PrivateSpectrum(CountsFirst):
    """Subspace iteration over noisy sums; `width` directions rank, twice as many are kept.

    >>> PrivateSpectrum(iterations=2).max_rounds
    3
    """

    item_power: float = 0.0
    cut: float = 5.0
    width: int = 4
    iterations: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 1 or self.iterations < 1:
            raise TacitError(
                f"width is {shown(self.width)} and iterations {shown(self.iterations)}; both must "
                "be at least 1."
            )

    @property
    def parts(self) -> int:
        return self.iterations

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0, together=True)

    @property
    def later_sums(self) -> frozenset[str]:
        return frozenset({BASIS})

    def shared(self, task: Task) -> dict[str, Initializer]:
        shape = (task.n_items, min(2 * self.width, task.n_items))
        return {**self.counted(task), BASIS: Initializer(shape, "orthonormal")}

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {name: shared[name] for name in (ITEM_WEIGHT, BASIS)}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if round_number == 1:
            return private, {COUNTS: self.counts_of(received, data)}
        if not self.sends(round_number):
            return private, {}
        weight_I = received[ITEM_WEIGHT]
        weight_H = weight_I[data.history_H] * self.spoken_of(data)
        row_I = torch.zeros_like(weight_I).index_add(0, data.history_H, weight_H)
        weight_H = scaled(weight_H, row_I.square().sum(), 1.0)
        head_D = weight_H @ received[BASIS][data.history_H]
        head_D = head_D / head_D.norm().clamp(min=1.0)  # a rounded basis may be a little too long
        return private, {BASIS: self.part_size * weight_H[:, None] * head_D}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        if COUNTS in total:
            told = self.heard(shared, total[COUNTS], n_clients)
            heard_I1 = (told[ITEM_WEIGHT] > 0)[:, None]
            return {**told, BASIS: _orthonormal(shared[BASIS] * heard_I1, heard_I1)}
        if BASIS not in total:
            return shared
        heard_I1 = (shared[ITEM_WEIGHT] > 0)[:, None]
        sum_ID = total[BASIS] * heard_I1
        ritz_DD = shared[BASIS].T @ sum_ID
        _, rotation_DD = torch.linalg.eigh((ritz_DD + ritz_DD.T) / 2)
        return {**shared, BASIS: _orthonormal(sum_ID @ rotation_DD.flip(1), heard_I1)}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        basis_ID = received[BASIS][:, : self.width]
        return basis_ID @ (data.real_H @ basis_ID[data.history_H])

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        basis_ID = received[BASIS][:, : self.width]
        return (data.real_H[:, None] * basis_ID[data.history_H]) @ basis_ID.T

    def interpretation(self) -> list[str]:
        return [
            "only sums of the uploads are used: under secure aggregation the server reads how often"
            " items are taken, and sums of x xᵀV over all clients",
            "without secure aggregation it reads a client's history: the rows that are not zero",
            "what one client adds to all sums together is of Euclidean norm 1 at most",
        ]


def _orthonormal(table_ID: Tensor, heard_I1: Tensor) -> Tensor:
    """Orthonormal columns that are zero for items which are not heard. Where fewer items are heard
    than there are columns, the rest of the columns are zero."""
    basis_ID, change_DD = torch.linalg.qr(table_ID)
    size_D = change_DD.diagonal().abs()
    full_D = size_D > 1e-12 * size_D.max().clamp(min=1e-300)
    return basis_ID * heard_I1 * full_D
