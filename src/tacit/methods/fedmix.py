"""FedMix (ours): a linear model that everybody shares, and a few numbers that each device fits.

Everybody shares EASE, from the sum that `fedease` asks for. With it come the counts of items, which
are the diagonal of that sum. From the shared scores s a device has several views of the catalogue,
one for each power p: s / count^p, brought to mean square one. A power of 0 is EASE as it is; the
higher a power, the less does it help an item that many people have it.

How much each view counts is a device's own. It wants ones for the items of its history and zeros
for all others, half of the loss for either:

    min over w:  mean over own items of (1 - w's)^2 + mean over others of (w's)^2
                 + trust * (mean diagonal of the normal equations) * |w - a/V|^2

EASE's diagonal is zero, so the score of an item never comes from the item itself: that is
leave-one-out, at no cost. What w is drawn towards is all V views alike, times the scale a at which
that fits best. The larger `trust`, the more devices are alike. Where a is not above zero, as with a
single item, the device takes all views alike.

The numbers are fitted anew from the history wherever a device ranks. They are kept by nobody and
sent to nobody, and a newcomer has them at once. Rounds, uploads and what a server reads are those
of `fedease`; a download is longer by the counts and one number. Rounds try the grid, ridge by
ridge. Under a claim of privacy it becomes what `fedease` becomes: one table of noisy pairs, the
same for all devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from tacit.core.algorithm import ClientData
from tacit.core.recency import Recency
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.closed_forms import GRAM, WEIGHT, PairSums
from tacit.methods.counts_first import COUNTS
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.item_to_item import Scaling, known, require_grid, train_row, weights_of
from tacit.privacy.guarantee import PrivacyRequest

TRUST = "trust"


@register("fedmix")
@dataclass(frozen=True)
class FedMix(PairSums):
    """EASE from one sum, over powers of counts that each device mixes for itself.

    >>> FedMix(ridges=(10.0,), trusts=(0.1, 1.0)).grid
    [(10.0, 0.1), (10.0, 1.0)]
    """

    ridges: tuple[float, ...] = (50.0, 200.0, 500.0)
    trusts: tuple[float, ...] = (0.1, 1.0, 10.0)
    powers: tuple[float, ...] = (0.0, 0.4)
    row_power: float = 0.0
    recency: Recency | None = None
    privacy: PrivacyRequest | None = None

    # said again: what a class vouches for stands in the class itself (`core/capabilities.py`)
    bound, update, absorb = PairSums.bound, PairSums.update, PairSums.absorb

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        require_grid("trusts", self.trusts)
        if not self.powers or min(self.powers) < -1 or max(self.powers) > 1:
            raise TacitError(f"powers are {self.powers}; give at least one, all from -1 to 1.")
        _ = self.scaling

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.row_power)

    @property
    def grid(self) -> list[tuple[float, float]]:
        """(ridge, trust) of each setting; a new trust needs no new table."""
        return list(product(self.ridges, self.trusts))

    @property
    def settings_tried(self) -> int:
        return len(self.grid)

    def shared(self, task: Task) -> dict[str, Initializer]:
        own = {COUNTS: Initializer((task.n_items,)), TRUST: Initializer(())}
        return {**super().shared(task), **own}

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {name: shared[name] for name in (WEIGHT, COUNTS, TRUST)}

    @property
    def steps_on_gpu(self) -> bool:
        return True

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        gram_II = total.get(GRAM, shared[GRAM])
        place = min(round_number, len(self.grid)) - 1
        ridge, trust = self.grid[place]
        weight_II = shared[WEIGHT]
        if place == 0 or self.grid[place - 1][0] != ridge:
            require_memory(
                3 * gram_II.numel() * 8,
                what=f"EASE's item-to-item tables for {len(gram_II)} items",
                hint="use fedspectral, whose tables are thin",
            )
            penalty_I = self.scaling.penalty(gram_II.diagonal(), ridge)
            inverse_II = torch.linalg.inv(gram_II + torch.diag(penalty_I))
            weight_II = weights_of(inverse_II, penalty_I, 0.0)
        now = {COUNTS: gram_II.diagonal().clone(), TRUST: torch.tensor(trust, dtype=torch.float64)}
        return {GRAM: gram_II, WEIGHT: weight_II, **now}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        row_I = train_row(data, len(received[WEIGHT]))
        factor_IV = torch.stack([known(received[COUNTS]) ** -power for power in self.powers], 1)
        view_IV = unit_columns((row_I @ received[WEIGHT])[:, None] * factor_IV)
        return view_IV @ own_weights(view_IV, row_I > 0, received[TRUST])

    def interpretation(self) -> list[str]:
        return [
            *super().interpretation(),
            f"the {len(self.powers)} weights that a client fits to its own history never leave it",
        ]


def unit_columns(view_IV: Tensor) -> Tensor:
    """Columns of mean square one; a column of zeros stays as it is.

    >>> unit_columns(torch.tensor([[3.0, 0.0], [3.0, 0.0]])).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    square_V = view_IV.square().mean(0)
    return view_IV / torch.where(square_V > 0, square_V, torch.ones_like(square_V)).sqrt()


def own_weights(view_IV: Tensor, is_own_I: Tensor, trust: Tensor) -> Tensor:
    """How much each view counts for one device, fitted to its own items.

    One view of which the own item has 2 and the other one 1: without trust 2 / (4 + 1).

    >>> view_IV, is_own_I = torch.tensor([[2.0], [1.0]]), torch.tensor([True, False])
    >>> own_weights(view_IV, is_own_I, torch.tensor(0.0)).tolist()
    [0.4000000059604645]
    """
    own_I = is_own_I.to(view_IV)
    other_I = 1 - own_I
    share_I = own_I / own_I.sum().clamp(min=1) + other_I / other_I.sum().clamp(min=1)
    square_VV = view_IV.T @ (share_I[:, None] * view_IV)
    right_V = view_IV.T @ (share_I * own_I)
    alike_V = torch.full_like(right_V, 1 / len(right_V))
    size = alike_V @ square_VV @ alike_V
    scale = alike_V @ right_V / torch.where(size > 0, size, torch.ones_like(size))
    eye_VV = torch.eye(len(right_V)).to(view_IV)
    mean = square_VV.diagonal().mean()
    penalty = torch.where(mean > 0, trust * mean, torch.ones_like(mean))  # views may all be zero
    fitted_V = torch.linalg.solve(square_VV + penalty * eye_VV, right_V + penalty * scale * alike_V)
    return torch.where(scale > 0, fitted_V, alike_V)


METHODS["fedmix"] = Entry(
    build=FedMix,
    summary="ours: EASE from one sum, mixed on each device by weights of its own",
    rounds=FedMix().settings_tried,
    # the powers; the table of `above-ease` narrowed them down
    chosen={"paper": Chosen(("ml-100k", "ml-1m", "ninerec-ku"))},
)
