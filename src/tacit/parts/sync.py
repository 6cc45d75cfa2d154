"""How the local item table relates to the global one: replaced, isolated, added, pulled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from tacit.core.capabilities import is_ground
from tacit.core.fit import CompositionError, LeaveOut
from tacit.core.parts import Sync
from tacit.core.registry import register
from tacit.core.types import ITEMS, OWN_ITEMS, Initializer, Params
from tacit.errors import TacitError

# The global table replaces the local one at the start of every round.


@register("replace")
@dataclass(frozen=True)
class Replace(Sync):
    """P_u <- G, then local training; what changed is sent.

    With `keep` the client ranks with its own tuned copy, as PFedRec does: the global table overlaid
    by the rows it last tuned (rows it never touched are G by definition, so only those are stored).
    Without, it ranks with the global table.

    >>> Replace(keep=True).scores_with, Replace().scores_with
    ('tuned', 'global')
    """

    keep: bool = False

    ground = True

    @property
    def scores_with(self) -> Literal["global", "tuned"]:
        return "tuned" if self.keep else "global"


# The ground state of synchronisation, which plug-ins may displace; anything else they may not.


def require_ground(sync: Sync, plugin: str) -> None:
    """Refuse to displace a rule that another method or plug-in put there.

    >>> require_ground(Replace(), "fedrkg")
    """
    if not is_ground(sync):
        raise CompositionError(
            f"{plugin} and {type(sync).__name__} both decide how the item table is combined with "
            "the global one",
            LeaveOut((plugin,)),
        )


class PersonalTable(Sync):
    """A dense table on each device, which it trains, reads and ranks with."""

    trains: tuple[str, ...] = (OWN_ITEMS,)

    @property
    def scores_with(self) -> Literal["global", "tuned", "own"]:
        return "own"

    def private(self, table: Initializer) -> dict[str, Initializer]:
        return {OWN_ITEMS: replace(table, same=True, like=ITEMS)}

    def read(self, p: Params) -> Tensor:
        return p[OWN_ITEMS]


# No synchronisation: a personal table that is never sent and never overwritten.


@register("isolated")
@dataclass(frozen=True)
class Isolated(PersonalTable):
    """Each client trains its own table for ever; nothing leaves. A control, not a method.

    >>> Isolated().sends(1)
    False
    """

    def shared(self, table: Initializer) -> dict[str, Initializer]:
        return {}

    def private(self, table: Initializer) -> dict[str, Initializer]:
        return {OWN_ITEMS: replace(table, same=True)}

    def sends(self, round_number: int) -> bool:
        return False


# FedRAP: an item is the sum of a personal row, which stays, and a common row, which is averaged.
#
# Two terms in the loss keep them apart and the common one sparse: −λ_t · mean (D_u − C)² + μ_t ·
# mean |C|, both over the rows of the batch times the width.


@register("additive")
@dataclass(frozen=True)
class Additive(PersonalTable):
    """Row = D_u[i] + C[i]; both train together, only C's change is sent.

    `apart` is λ, `sparse` is μ; `schedule` multiplies both, as a function of t, the rounds already
    played. "tanh" is the paper's curriculum, tanh(t / 10). "fixed" is what the released code really
    does: it computes the curriculum and reads the constants. "cumulative" is the quirk of a later
    release: the constants themselves are multiplied by tanh(t / 10) round after round, which is 0
    at once, so that the terms stand in the first round only. "none" leaves both out. `norm="none"`
    leaves out the norm of C alone.

    Both tables begin with the scorer's initializer for a row, the same for all clients but
    independent of each other, as released: under the unit normal distribution a row begins with
    variance 2.

    >>> [round(Additive().factor(round_number), 4) for round_number in (1, 2, 11)]
    [0.0, 0.0997, 0.7616]
    """

    apart: float = 0.1
    sparse: float = 1e-3
    schedule: Literal["tanh", "fixed", "cumulative", "none"] = "tanh"
    norm: Literal["l1", "none"] = "l1"

    trains = (OWN_ITEMS, ITEMS)

    def __post_init__(self) -> None:
        for name, value in (("apart", self.apart), ("sparse", self.sparse)):
            if not value >= 0:
                raise TacitError(f"sync.{name} is {value}; it must not be negative.")

    def private(self, table: Initializer) -> dict[str, Initializer]:
        return {OWN_ITEMS: replace(table, same=True)}

    def read(self, p: Params) -> Tensor:
        return p[OWN_ITEMS] + p[ITEMS]

    def factor(self, round_number: int) -> float:
        """What λ and μ are multiplied by in a round; rounds count from 1."""
        played = round_number - 1
        if self.schedule == "tanh":
            return math.tanh(played / 10)
        if self.schedule == "cumulative":
            return 1.0 if played == 0 else 0.0
        return 1.0 if self.schedule == "fixed" else 0.0

    def penalty(self, p: Params, weight_N: Tensor, round_number: int) -> Tensor:
        """The two terms of a batch; `weight_N` makes the sum over samples a mean."""
        own_ND, common_ND = p[OWN_ITEMS], p[ITEMS]
        term_N = -self.apart * (own_ND - common_ND).square().mean(-1)
        if self.norm == "l1":
            term_N = term_N + self.sparse * common_ND.abs().mean(-1)
        return self.factor(round_number) * (weight_N * term_N).sum()


# IFedRec: the global table replaces the local one, which is then pulled to what content says.

# The table that the server makes from the content of all items, the same for everybody. Clients
# read it and never send it. (GPFedRec's guide has this name too, but is one user's and private.)
GUIDE = "items.guide"  # the table that the server made for this very user


@register("anchored")
@dataclass(frozen=True)
class Anchored(Sync):
    """P_u ← G; the loss has the term strength · mean (P_u − R)² over the whole table.

    R begins as zeros; whoever makes it from content writes it between rounds. A step of the items
    multiplies P_u − R by 1 − 2 · strength · rate / (I·D) on rows that no sample reads: below −1 it
    diverges, and nothing here hides that. The client ranks with the global table.

    >>> import torch
    >>> tables = {"items": torch.ones(2, 2), "items.guide": torch.zeros(2, 2)}
    >>> Anchored(strength=0.5).table_penalty(tables).item()
    0.5
    """

    strength: float = 10.0

    rows = "all"
    penalises_tables = True
    needs = (GUIDE,)

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise TacitError(f"sync.strength is {self.strength}; it must not be negative.")

    def shared(self, table: Initializer) -> dict[str, Initializer]:
        return {ITEMS: table, GUIDE: Initializer(table.shape)}

    def table_penalty(self, p: Params) -> Tensor:
        return self.strength * (p[ITEMS] - p[GUIDE]).square().mean()


# GPFedRec: a personal table that begins each round as the global one and is pulled to a guide.


@register("proximal")
@dataclass(frozen=True)
class Proximal(PersonalTable):
    """P_u ← G; the loss has the term strength · mean (P_u − r_u)² over the whole table.

    r_u is the guide that the server made for the user in the last round the user took part in; it
    begins as the first global table. The client ranks with the P_u of its own last training.

    >>> import torch
    >>> tables = {"items.own": torch.ones(2, 2), "items.guide": torch.zeros(2, 2)}
    >>> Proximal(strength=0.5).table_penalty(tables).item()
    0.5
    """

    strength: float = 1.0

    rows = "all"
    restarts = True
    penalises_tables = True
    needs = (GUIDE,)

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise TacitError(f"sync.strength is {self.strength}; it must not be negative.")

    def table_penalty(self, p: Params) -> Tensor:
        return self.strength * (p[OWN_ITEMS] - p[GUIDE]).square().mean()
