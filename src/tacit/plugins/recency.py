"""Recent items count more: weights that a device applies to its own history, on any method.

Where a method scores from a history (EASE, PureSVD and their federated roads, FCF's least squares)
the history is weighed when it is ranked from; what is learnt, and what is sent, stays as it is.
Where clients train (an expression over parts) their positives count more or less in local training,
with mean 1, and routers read the history with the same weights. Half-lives are chosen on
validation, or by every device for itself (`per_user`) where it ranks in closed form.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tacit.core.fit import CompositionError, LeaveOut
from tacit.core.method import AnyMethod
from tacit.core.recency import Recency
from tacit.core.registry import part_name
from tacit.plugins.entry import PLUGINS, Plugin, Promise


def weighs_histories(method: AnyMethod) -> bool:
    """Whether a method can weigh the items of a history: it has a field `recency`.

    >>> from tacit.methods import Ease, Popularity, fedmf
    >>> [weighs_histories(build()) for build in (Ease, fedmf, Popularity)]
    [True, True, False]
    """
    return "recency" in {field.name for field in fields(method)}  # type: ignore[arg-type]


def recency(
    method: AnyMethod, half_life: float = 4.0, per_user: bool = False, floor: float = 0.0
) -> Any:
    """The method with histories in which an item counts half after every `half_life` later ones,
    and never less than `floor`.

    >>> from tacit.methods import Ease, fedmf
    >>> recency(fedmf(), half_life=8.0).recency
    Recency(half_life=8.0, per_user=False, floor=0.0)
    >>> recency(Ease(), per_user=True).recency.grid
    (4.0, 1.0, 2.0, 8.0, 16.0, inf)
    """
    if not weighs_histories(method):
        title = part_name(type(method)) or type(method).__name__
        raise CompositionError(
            f"recency weighs the items of a history, and {title} has no field `recency`",
            LeaveOut(("recency",)),
        )
    return replace(method, recency=Recency(half_life, per_user, floor))  # type: ignore[type-var]


PLUGINS["recency"] = Plugin(
    recency,
    "recent items count more, on the device (ours; half_life in items, per_user, floor)",
    promise=Promise("weights by recency", lambda method: method.recency is not None),
    any_method=True,
)
