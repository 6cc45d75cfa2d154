"""Which capabilities of a part may be trusted.

Some behaviours are written twice: once as the definition, for one client, and once more for speed
(`aggregate_tables` and `aggregate_in_place`, `update` and `update_ragged`). A subclass that
overrides the definition inherits the fast version, which knows nothing of it. So a fast version is
trusted only where one and the same class wrote both, and that class is the part's own. Where it is
not trusted the definition runs: slower, and right. A subclass that wants the speed says both again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.core.optim import Optimiser, WrittenStep
from tacit.core.parts import ItemEncoder, Routed, TableRule, Transform, Viewed
from tacit.core.types import Params, Part


def defines(part: object, *names: str) -> bool:
    """Whether the very class of a part wrote all of these, and inherited none.

    >>> from tacit.core.optim import Sgd
    >>> class Hasty(Sgd):
    ...     def update(self, value, gradient, state, rate):
    ...         return value - 2 * rate * gradient, state
    >>> defines(Sgd(), "update", "init"), defines(Hasty(), "update", "init")
    (True, False)
    """
    return all(name in vars(type(part)) for name in names)


def overrides(part: Part, base: type[Part], name: str) -> bool:
    """Whether a part has another behaviour than the default of its kind.

    >>> from tacit.core.parts import Sync
    >>> from tacit.parts.sync import Additive, Replace
    >>> overrides(Additive(), Sync, "penalty"), overrides(Replace(), Sync, "penalty")
    (True, False)
    """
    return getattr(type(part), name) is not getattr(base, name)


def is_ground(part: Part) -> bool:
    """Whether a part is the plainest of its slot, so that a plug-in may displace it. A subclass is
    a rule of somebody's own, and is not.

    >>> from tacit.parts.sync import Isolated, Replace
    >>> class Mine(Replace):
    ...     pass
    >>> is_ground(Replace()), is_ground(Isolated()), is_ground(Mine())
    (True, False, False)
    """
    return defines(part, "ground") and part.ground


def is_plain_descent(optimiser: Optimiser) -> bool:
    """Whether a step is exactly value - rate * gradient, so that kernels may write it down, and
    gradients of one row may be taken one after another.

    >>> from tacit.core.optim import Sgd
    >>> is_plain_descent(Sgd()), is_plain_descent(Sgd(weight_decay=0.1))
    (True, False)
    """
    return written_step(optimiser) == WrittenStep(weight_decay=0.0)


def written_step(optimiser: Optimiser) -> WrittenStep | None:
    """The numbers of a step that kernels can take by themselves, where one class wrote both.

    >>> from tacit.core.optim import Adam
    >>> written_step(Adam(weight_decay=0.1)).weight_decay
    0.1
    """
    return optimiser.written_down if defines(optimiser, "written_down", "init", "update") else None


def steps_entrywise(optimiser: Optimiser) -> bool:
    """Whether an entry's step depends on that entry alone, so that values of many clients can be
    stacked, padded and stepped at once. An optimiser says so with `entrywise = True` beside its
    own `init` and `update`; others step one client at a time.

    >>> from tacit.core.optim import Sgd
    >>> steps_entrywise(Sgd())
    True
    """
    return defines(optimiser, "entrywise", "init", "update") and optimiser.entrywise


def stacked_optimizer_state(optimiser: Optimiser, value: Tensor) -> Params:
    """What an optimiser begins with for each of some stacked values. One that does not say that it
    is entrywise is asked for each alone, and may keep what it likes: a count, a norm.

    >>> from tacit.core.optim import Adam
    >>> stacked_optimizer_state(Adam(), torch.ones(3, 2))["steps"].tolist()
    [0.0, 0.0, 0.0]
    """
    if steps_entrywise(optimiser):
        return optimiser.init(value, 1)
    each = [optimiser.init(one, 0) for one in value]
    return {key: torch.stack([states[key] for states in each]) for key in each[0]}


def factors_at_once(link: Transform) -> bool:
    """Whether `factor` may be asked for the norms of many uploads at once.

    >>> from tacit.parts.channel import Clip
    >>> factors_at_once(Clip())
    True
    """
    return defines(link, "entrywise", "factor") and link.entrywise


def encodes(link: Transform) -> bool:
    """Whether a link puts something else in the place of single uploads. One that calls its
    settings neutral is believed where one class, its own, wrote that and `encode`.

    >>> from tacit.parts.channel import Clip
    >>> encodes(Clip())
    False
    """
    writes = overrides(link, Transform, "encode") or overrides(link, Transform, "decode")
    return writes and not (defines(link, "neutral", "encode") and link.neutral)


def split_views(encoder: ItemEncoder) -> Viewed | None:
    """The encoder in two steps, where `encode` is `mix` after `views`: then a server may make the
    views. None for all others."""
    return encoder.viewed if defines(encoder, "encode", "views", "mix") else None


def routed_views(encoder: ItemEncoder) -> Routed | None:
    """The encoder whose `mix` is `weighed` under `weights`: then one can ask what a view brings.
    None for all others."""
    return encoder.routed if defines(encoder, "views", "mix", "weights", "weighed") else None


def aggregates_in_place(server: TableRule) -> bool:
    """Whether `aggregate_in_place` does what `aggregate_tables` does."""
    return defines(server, "in_place", "aggregate_in_place", "aggregate_tables") and server.in_place
