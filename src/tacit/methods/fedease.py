"""FedEase (ours): EASE from one sum over clients.

In the first round a client answers its train row x, once for each item of its history: the sum over
clients is the Gram matrix XᵀX, all that EASE needs of anybody. The server then solves (see
`tacit.methods.ease`); later rounds ask nobody for anything and try the next ridge of the grid, and
validation picks one. A client ranks with xᵀB.

Bytes count one upload and one download of an (I, I) table; trying r ridges on validation, as a run
does, sends r - 1 more tables down. Who does not take part in the first round is not in the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tacit.core.direct import ClientData
from tacit.core.types import Init, Params, Task
from tacit.data.sampling import Sampling
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.ease import Ease
from tacit.methods.entry import METHODS, Entry

GRAM, WEIGHT = "gram", "weight"


@dataclass(frozen=True)
class FedEase:
    """EASE over a one-shot Gram sum, with a grid of ridge penalties.

    >>> [FedEase().sends(round_number) for round_number in (1, 2, 3)]
    [True, False, False]
    """

    ridges: tuple[float, ...] = Ease().ridges

    def __post_init__(self) -> None:
        if not self.ridges or min(self.ridges) <= 0:
            raise TacitError(f"ridges are {self.ridges}; give at least one, all above 0.")

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    @property
    def sampling(self) -> Sampling | None:
        return None

    @property
    def row_leaves(self) -> frozenset[str]:
        return frozenset({GRAM})

    def shared(self, task: Task) -> dict[str, Init]:
        square = Init((task.n_items, task.n_items))
        return {GRAM: square, WEIGHT: square}

    def private(self, task: Task) -> dict[str, Init]:
        return {}

    def noise(self, task: Task) -> dict[str, Init]:
        return {}

    def sends(self, round_number: int) -> bool:
        return round_number == 1

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {WEIGHT: shared[WEIGHT]}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        row_I = train_row(data, len(received[WEIGHT]))
        # one row, said once for each item: no copy is made until the server adds it up
        return private, {GRAM: row_I.expand(len(data.history_H), -1)}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        gram_II = total.get(GRAM, shared[GRAM])
        require_memory(
            3 * gram_II.numel() * 8,
            what=f"EASE's item-to-item tables for {len(gram_II)} items",
            hint="use fedspectral, whose tables are thin",
        )
        ridge = self.ridges[min(round_number, len(self.ridges)) - 1]
        inverse_II = torch.linalg.inv(gram_II + ridge * torch.eye(len(gram_II)).to(gram_II))
        weight_II = -inverse_II / inverse_II.diagonal()
        return {GRAM: gram_II, WEIGHT: weight_II.fill_diagonal_(0.0)}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return train_row(data, len(received[WEIGHT])) @ received[WEIGHT]

    def says(self) -> list[str]:
        return [
            "only the sum of the uploads is used: under secure aggregation the server reads how "
            "many clients have each pair of items, and no client's own pairs",
            "without secure aggregation it reads a client's history in full",
        ]


def train_row(data: ClientData, n_items: int) -> Tensor:
    """x: one for each item of the history, zero elsewhere."""
    return data.real_H.new_zeros(n_items).index_add(0, data.history_H, data.real_H)


METHODS["fedease"] = Entry(
    build=FedEase,
    summary="ours: EASE from one sum over clients",
    rounds=len(FedEase().ridges),
)
