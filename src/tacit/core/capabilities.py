"""Which capabilities of a part may be trusted.

Some behaviours are written twice: once as the definition, for one client, and once more for speed
(`meet` and `meet_in_place`, `update` and `play`). A subclass that overrides the definition inherits
the fast version, which knows nothing of it. So a fast version is trusted only where one and the
same class wrote both, and that class is the part's own. Where it is not trusted the definition
runs: slower, and right. A subclass that wants the speed says both again.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from tacit.core.custom import (
    AbsorbsBlocks,
    DirectMethod,
    KeepsHistoryRows,
    PlaysCrowds,
    StepsInPlace,
)
from tacit.core.optim import Optimiser, Sgd
from tacit.core.parts import MeetsInPlace, ServerRule, TableRule, Viewed
from tacit.core.types import Params


def defines(part: object, *names: str) -> bool:
    """Whether the very class of a part wrote all of these, and inherited none.

    >>> class Hasty(Sgd):
    ...     def update(self, value, gradient, state, rate):
    ...         return value - 2 * rate * gradient, state
    >>> defines(Sgd(), "update", "init"), defines(Hasty(), "update", "init")
    (True, False)
    """
    return all(name in vars(type(part)) for name in names)


def is_plain_descent(optimiser: Optimiser) -> bool:
    """Whether a step is exactly value - rate * gradient, so that kernels may write it down, and
    gradients of one row may be taken one after another.

    >>> is_plain_descent(Sgd()), is_plain_descent(Sgd(weight_decay=0.1))
    (True, False)
    """
    return type(optimiser) is Sgd and optimiser.stateless


def steps_entrywise(optimiser: Optimiser) -> bool:
    """Whether an entry's step depends on that entry alone, so that values of many clients can be
    stacked, padded and stepped at once. An optimiser says so with `entrywise = True` beside its
    own `init` and `update`; others step one client at a time.

    >>> steps_entrywise(Sgd())
    True
    """
    written = defines(optimiser, "entrywise", "init", "update")
    return written and bool(getattr(optimiser, "entrywise", False))


def stacked_slots(optimiser: Optimiser, value: Tensor) -> Params:
    """What an optimiser begins with for each of some stacked values. One that does not say that it
    is entrywise is asked for each alone, and may keep what it likes: a count, a norm.

    >>> from tacit.core.optim import Adam
    >>> stacked_slots(Adam(), torch.ones(3, 2))["steps"].tolist()
    [0.0, 0.0, 0.0]
    """
    if steps_entrywise(optimiser):
        return optimiser.init(value, 1)
    each = [optimiser.init(one, 0) for one in value]
    return {slot: torch.stack([slots[slot] for slots in each]) for slot in each[0]}


def splits_views(encoder: object) -> TypeGuard[Viewed]:
    """Whether `encode` is `mix` after `views`, so that a server may make the views."""
    return isinstance(encoder, Viewed) and defines(encoder, "encode", "views", "mix")


def meets_in_place(server: ServerRule | TableRule) -> TypeGuard[MeetsInPlace]:
    """Whether `meet_in_place` does what `meet` does."""
    return isinstance(server, MeetsInPlace) and defines(server, "meet_in_place", "meet")


def plays_crowds(method: DirectMethod) -> TypeGuard[PlaysCrowds]:
    """Whether `play` and `score_crowd` do, with the present settings, what the functions for one
    client do."""
    alone = ("broadcast", "update", "absorb", "score")
    return (
        isinstance(method, PlaysCrowds)
        and defines(method, "plays_crowds", "play", "score_crowd", *alone)
        and method.plays_crowds
    )


def steps_in_place(method: DirectMethod) -> TypeGuard[StepsInPlace]:
    """Whether `step_in_place` does what `step` does."""
    return isinstance(method, StepsInPlace) and defines(method, "step_in_place", "step")


def absorbs_blocks(method: DirectMethod) -> TypeGuard[AbsorbsBlocks]:
    """Whether `absorb_block` adds up what `absorb` gives."""
    written = defines(method, "absorb_block", "absorb", "broadcast")
    return isinstance(method, AbsorbsBlocks) and written


def keeps_history_rows(method: DirectMethod) -> TypeGuard[KeepsHistoryRows]:
    """Whether clients read and move no other rows of `history_leaves` than those of histories."""
    written = defines(method, "history_leaves", "update", "score")
    return isinstance(method, KeepsHistoryRows) and written
